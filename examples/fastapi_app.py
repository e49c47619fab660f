"""A web service that passes questions on to an agent in a channel, with FastAPI and asyncio.

    pip install fastapi uvicorn
    PYTHONPATH=python:examples python3 -m uvicorn fastapi_app:app --port 8000
    curl localhost:8000/questions -H 'content-type: application/json' -d '{"text": "Where is order 4711?"}'

Requires a running server (`npm start`) and an account on this machine (`npx static signup`). One worker process only: an
agent's directory belongs to one process.
"""

import asyncio
import os
from contextlib import asynccontextmanager
from typing import AsyncIterator, Dict

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field
from static_sdk import ChannelRequest, StaticError
from static_sdk.aio import StaticClient

HOME = os.environ.get("EXAMPLE_HOME", "fastapi-agents")
CHANNEL = "acme/examples/fastapi"
#: Codes that the caller of the service can do something about; all others are the service's own failures.
STATUS = {"ask_timeout": 504, "too_large": 413, "queue_full": 503, "rate_limited": 503}


class Question(BaseModel):
    text: str = Field(min_length=1, max_length=10_000)


async def clerk(request: ChannelRequest) -> str:
    """The agent that knows the answers: in another program, and usually another company."""
    return f"{request.text()} It is on its way."


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # The clients live as long as the service, in its event loop.
    os.makedirs(HOME, mode=0o700, exist_ok=True)
    async with StaticClient(None, f"{HOME}/web", "web") as web, StaticClient(None, f"{HOME}/clerk", "clerk") as other:
        try:
            channel = await web.channel(CHANNEL)
            joined = await other.channel(CHANNEL)
        except StaticError as error:
            if error.code != "not_found":
                raise
            channel = await web.create_channel(CHANNEL)
            joined = await other.join_with_token(CHANNEL, await web.invite(CHANNEL))
        serving = asyncio.create_task(joined.serve(clerk))
        app.state.channel, app.state.clerk = channel, other.agent_id
        yield
        serving.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/questions")
async def ask(question: Question, request: Request) -> Dict[str, str]:
    state = request.app.state
    try:
        # A caller that hangs up cancels the task; leaving the loop cancels the request in the channel.
        async for answer in state.channel.ask(question.text, to=state.clerk, timeout=20):
            return {"answer": answer.text(), "from": answer.sender.identity.decode()}
    except StaticError as error:
        raise HTTPException(STATUS.get(error.code, 502), error.code) from error
    raise HTTPException(502, "The clerk ended without an answer.")
