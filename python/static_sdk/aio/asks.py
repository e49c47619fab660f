"""Requests to members of a channel, and serving theirs, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from datetime import datetime
from typing import Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Dict, Generator, Mapping, Optional, Union

from .._asking import Answer, ChannelRequest, answer_of, deadline_of, failure_of, warn_of_request
from .._schema import Check, fitted, value_text
from .._values import Payload, payload_bytes
from ..errors import StaticError, make_error
from ._closing import Closing
from ._connection import Call, Connection

#: The return type of a ``serve`` handler: answers one by one, or a coroutine of the only one.
Answers = Union[AsyncIterable[Payload], Awaitable[Optional[Payload]]]


class Ask(Closing):
    """A request, and its answers as they arrive: an asynchronous iterator.

    It ends when the asked member has finished its answer or, if all were asked, when all have finished or the request
    times out. Asking for the next answer settles the current one. Closing the iterator cancels the request: call
    ``close()``, or use an ``async with`` block, if you leave the loop early. Awaiting it waits until the request was
    accepted; before that, its properties are not known.
    """

    def __init__(
        self,
        channel: object,
        connection: Connection,
        opening: Optional[Call],
        told: Optional[Mapping[str, Any]] = None,
    ) -> None:
        # Keeps the channel, and so the client, alive while it is read.
        self._channel = channel
        self._connection = connection
        #: The pending call that asks.
        self._opening = opening
        #: The driver's description of it; None until the request was accepted.
        self._told = told

    def __await__(self) -> Generator[Any, None, "Ask"]:
        return self._accepted().__await__()

    async def _accepted(self) -> "Ask":
        await self._number()
        return self

    async def _number(self) -> int:
        if self._told is None:
            assert self._opening is not None
            self._told, _ = await self._opening.wait()
        return int(self._told["ask"])

    def _facts(self, name: str) -> Mapping[str, Any]:
        if self._told is None:
            text = f"`{name}` is not known before the request was accepted. Await it first."
            raise make_error("invalid_request", text)
        return self._told

    @property
    def id(self) -> str:
        """The request's message id, 32 hexadecimal digits."""
        return str(self._facts("id")["id"])

    @property
    def to(self) -> Optional[str]:
        """The agent id of the asked member. None: all."""
        to: Optional[str] = self._facts("to")["to"]
        return to

    @property
    def deadline(self) -> datetime:
        """When the request times out."""
        return deadline_of(self._facts("deadline"))

    def __aiter__(self) -> "Ask":
        return self

    async def __anext__(self) -> Answer:
        told, data = await self._connection.call("nextAnswer", on=await self._number())
        answer = answer_of(told, data, self._connection.error)
        if answer is None:
            raise StopAsyncIteration
        return answer

    async def close(self) -> None:
        """Ends the request and forgets its answers. The members asked are notified unless they are done."""
        await self._connection.call("cancelAsk", on=await self._number())


async def serve(
    connection: Connection,
    channel: str,
    on: Union[int, str],
    handler: Callable[[ChannelRequest], Answers],
    concurrency: int,
    per_asker: int,
) -> None:
    """Calls the handler for each request until the channel ends, in a task for each request."""
    tasks: Dict[int, "asyncio.Task[None]"] = {}

    async def work(token: int, request: ChannelRequest) -> None:
        try:
            async for payload in _answers(handler(request)):
                if not (await connection.call("answer", payload, token=token))[0]:
                    break
        except BaseException as error:
            if isinstance(error, Exception):
                warn_of_request(connection, channel, request, error)
            if not connection.is_over:
                connection.say("answered", token=token, error=failure_of(error))
            if not isinstance(error, Exception) and not request.is_cancelled:
                raise
        else:
            if not connection.is_over:
                connection.say("answered", token=token)
        finally:
            tasks.pop(token, None)

    cancelled: Dict[int, ChannelRequest] = {}

    def hear(header: Mapping[str, Any], data: bytes) -> None:
        token = header["token"]
        if header["event"] == "cancelled":
            if token in tasks:
                cancelled[token].is_cancelled = True
                tasks[token].cancel()
            return
        request = cancelled[token] = ChannelRequest(header, data)
        task = tasks[token] = asyncio.get_running_loop().create_task(work(token, request))
        task.add_done_callback(lambda _: cancelled.pop(token, None))

    call = connection.begin_hearing(
        "serve", hear, lambda: None, on=on, concurrency=concurrency, perAsker=per_asker
    )
    try:
        await call.wait()
    except asyncio.CancelledError:
        connection.cancel(call)
        for task in list(tasks.values()):
            task.cancel()
        with contextlib.suppress(StaticError):
            await call.wait()
        raise
    finally:
        if tasks:
            await asyncio.wait(set(tasks.values()))


def json_server(
    handler: Callable[[ChannelRequest, Any], Any], check: Check
) -> Callable[[ChannelRequest], Answers]:
    """A handler of requests whose payloads are JSON, and whose answers are sent as JSON."""

    async def answers(request: ChannelRequest) -> AsyncIterator[str]:
        given = handler(request, fitted(check, request.payload, "The request"))
        if inspect.isawaitable(given):
            value = await given
            if value is not None:
                yield value_text(value)
            return
        async for value in given:
            yield value_text(value)

    return answers


async def _answers(given: Answers) -> AsyncIterator[bytes]:
    if inspect.isawaitable(given):
        payload = await given
        if payload is not None:
            yield payload_bytes(payload)
        return
    async for payload in given:  # type: ignore[union-attr]
        yield payload_bytes(payload)
