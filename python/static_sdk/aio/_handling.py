"""``Channel.handle``: the driver schedules the attempts, this module runs the handler in tasks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import Any, Callable, Mapping, Set

from .._handling import reason_of, warn_of_message, warn_of_unfit
from .._schema import Unfit
from .._values import Arrival, Settlement
from ..errors import StaticError
from ._connection import Connection
from ._inbox import Inbox


async def handle(
    connection: Connection,
    channel: str,
    on: int,
    inbox: Inbox,
    handler: Callable[[Arrival], Any],
    concurrency: int,
    attempts: int,
) -> None:
    """Calls the handler for each message until the channel ends, in a task for each message."""
    tasks: Set["asyncio.Task[None]"] = set()

    async def work(header: Mapping[str, Any], data: bytes) -> None:
        token = header["token"]
        try:
            result = handler(Arrival(token, header, data, Settlement(inbox, token)))
            if inspect.isawaitable(result):
                await result
        except Unfit as error:
            warn_of_unfit(connection, channel, header, data, error)
            _report(connection, on, token, error=str(error), isUnfit=True)
        except Exception as error:
            warn_of_message(connection, channel, header, data, error)
            _report(connection, on, token, error=reason_of(error))
        except BaseException:
            _report(connection, on, token, error="The program was interrupted.")
            raise
        else:
            _report(connection, on, token)

    def hear(header: Mapping[str, Any], data: bytes) -> None:
        task = asyncio.get_running_loop().create_task(work(header, data))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    with inbox.handling():
        call = connection.begin_hearing(
            "handle", hear, lambda: None, on=on, concurrency=concurrency, attempts=attempts
        )
        try:
            await call.wait()
        except asyncio.CancelledError:
            # In this order: the driver starts no other handler for the messages that are given back.
            connection.cancel(call)
            for task in tasks:
                task.cancel()
            await _all(tasks)
            # Afterwards, the messages are back in their places for the next reader.
            with contextlib.suppress(StaticError):
                await call.wait()
            raise
        finally:
            await _all(tasks)


def _report(connection: Connection, on: int, token: int, **failure: Any) -> None:
    if not connection.is_over:
        connection.say("handled", on=on, token=token, **failure)


async def _all(tasks: Set["asyncio.Task[None]"]) -> None:
    if tasks:
        await asyncio.wait(set(tasks))
