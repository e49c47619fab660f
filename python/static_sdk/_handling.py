"""``Channel.handle``: the driver schedules the attempts, this module calls the handler."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Any, Callable, List, Mapping, Optional, Tuple

from ._connection import LOOK_SECONDS, BaseConnection, Connection
from ._inbox import Inbox
from ._schema import Unfit
from ._values import Arrival, Settlement
from .errors import StaticError

Job = Optional[Tuple[Mapping[str, Any], bytes]]

#: The agent keeps no more. The text may quote a sender's input, and a longer one would not fit into a frame.
_LONGEST_REASON = 1000


def reason_of(error: Exception) -> str:
    """The reported reason for a handler's failure."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:_LONGEST_REASON]
    except Exception:
        # Converting it to text failed.
        return name[:_LONGEST_REASON]


def warn_of_message(
    connection: BaseConnection[Any], channel: str, header: Mapping[str, Any], data: bytes, error: BaseException
) -> None:
    """Warns that the handler of a message has failed."""
    then = "It is called again until the message is put aside (`channel.poison`)."
    connection.log.warn(f"The handler of `handle` failed on {_message(channel, header)}. {then}", error, data)


def warn_of_unfit(
    connection: BaseConnection[Any], channel: str, header: Mapping[str, Any], data: bytes, error: Unfit
) -> None:
    """Warns that a message does not fit the schema."""
    what = _message(channel, header)
    connection.log.warn(f"The message does not fit, and is put aside (`channel.poison`): {what}.", error, data)


def _message(channel: str, header: Mapping[str, Any]) -> str:
    sender = header["sender"]["agentId"][:8]
    return f"message {header['messageId']} from agent {sender}… in channel {channel}"


def handle(
    connection: Connection,
    channel: str,
    on: int,
    inbox: Inbox,
    handler: Callable[[Arrival], Any],
    concurrency: int,
    attempts: int,
) -> None:
    """Calls the handler for each message until the channel ends, in this thread and ``concurrency - 1`` others."""
    jobs: "queue.SimpleQueue[Job]" = queue.SimpleQueue()

    def hear(header: Mapping[str, Any], data: bytes) -> None:
        jobs.put((header, data))

    def end() -> None:
        # Each worker passes this on to the next.
        jobs.put(None)

    def work() -> None:
        while True:
            try:
                job = jobs.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            if job is None:
                jobs.put(None)
                return
            header, data = job
            token = header["token"]
            try:
                handler(Arrival(token, header, data, Settlement(inbox, token)))
            except Unfit as error:
                warn_of_unfit(connection, channel, header, data, error)
                connection.say("handled", on=on, token=token, error=str(error), isUnfit=True)
            except Exception as error:
                warn_of_message(connection, channel, header, data, error)
                connection.say("handled", on=on, token=token, error=reason_of(error))
            except BaseException:
                connection.say("cancel", call=call.number)
                connection.say("handled", on=on, token=token, error="The program was interrupted.")
                # Afterwards, the message is back in its place for the next reader.
                with contextlib.suppress(StaticError):
                    call.wait()
                raise
            else:
                connection.say("handled", on=on, token=token)

    others: List[threading.Thread] = []
    with inbox.handling():
        call = connection.begin_hearing("handle", hear, end, on=on, concurrency=concurrency, attempts=attempts)
        for _ in range(concurrency - 1):
            others.append(threading.Thread(target=work, name="static-handler", daemon=True))
            others[-1].start()
        work()
        for thread in others:
            thread.join()
    call.wait()
