"""Requests to members of a channel, and serving theirs."""

from __future__ import annotations

import threading
from datetime import datetime
from collections.abc import Iterator as IteratorType
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Set, Tuple

from ._asking import Answer, Answers, ChannelRequest, answer_of, deadline_of, failure_of, is_payload, warn_of_request
from ._connection import Connection
from ._closing import Closing
from ._schema import Check, fitted, value_text
from ._values import payload_bytes

#: The number of requests served at the same time, unless the caller says otherwise.
CONCURRENCY = 64


class Ask(Closing):
    """A request, and its answers as they arrive: a blocking iterator.

    It ends when the asked member has finished its answer or, if all were asked, when all have finished or the request
    times out. Asking for the next answer settles the current one. Closing the iterator cancels the request: call
    ``close()``, or use a ``with`` block, if you leave the loop early.
    """

    def __init__(self, channel: object, connection: Connection, told: Mapping[str, Any]) -> None:
        # Keeps the channel, and so the client, alive while it is read.
        self._channel = channel
        self._connection = connection
        self._on: int = told["ask"]
        self._id: str = told["id"]
        self._to: Optional[str] = told["to"]
        self._deadline = deadline_of(told)

    @property
    def id(self) -> str:
        """The request's message id, 32 hexadecimal digits."""
        return self._id

    @property
    def to(self) -> Optional[str]:
        """The agent id of the asked member. None: all."""
        return self._to

    @property
    def deadline(self) -> datetime:
        """When the request times out."""
        return self._deadline

    def __iter__(self) -> "Ask":
        return self

    def __next__(self) -> Answer:
        told, data = self._connection.call("nextAnswer", on=self._on)
        answer = answer_of(told, data, self._connection.error)
        if answer is None:
            raise StopIteration
        return answer

    def close(self) -> None:
        """Ends the request and forgets its answers. The members asked are notified unless they are done."""
        self._connection.call("cancelAsk", on=self._on)


def serve(
    connection: Connection,
    channel: str,
    on: int,
    handler: Callable[[ChannelRequest], Answers],
    concurrency: int,
    per_asker: int,
) -> None:
    """Calls the handler for each request until the channel ends, each in a separate thread."""
    requests: Dict[int, ChannelRequest] = {}
    threads: Set[threading.Thread] = set()
    ended = threading.Event()

    def work(token: int, request: ChannelRequest) -> None:
        try:
            for payload in _answers(handler(request)):
                if not connection.call("answer", payload, token=token)[0]:
                    break
        except Exception as error:
            warn_of_request(connection, channel, request, error)
            connection.say("answered", token=token, error=failure_of(error))
        else:
            connection.say("answered", token=token)
        finally:
            requests.pop(token, None)
            threads.discard(threading.current_thread())

    def hear(header: Mapping[str, Any], data: bytes) -> None:
        token = header["token"]
        if header["event"] == "cancelled":
            request = requests.get(token)
            if request is not None:
                request.is_cancelled = True
            return
        requests[token] = ChannelRequest(header, data)
        thread = threading.Thread(
            target=work, args=(token, requests[token]), name="static-server", daemon=True
        )
        threads.add(thread)
        thread.start()

    call = connection.begin_hearing(
        "serve", hear, ended.set, on=on, concurrency=concurrency, perAsker=per_asker
    )
    try:
        call.wait()
    except KeyboardInterrupt:
        connection.say("cancel", call=call.number)
        raise
    for thread in list(threads):
        thread.join()


def json_server(
    handler: Callable[[ChannelRequest, Any], Any], check: Check
) -> Callable[[ChannelRequest], Answers]:
    """A handler of requests whose payloads are JSON, and whose answers are sent as JSON."""

    def answers(request: ChannelRequest) -> Iterator[str]:
        given = handler(request, fitted(check, request.payload, "The request"))
        # A list is one answer.
        if isinstance(given, IteratorType):
            for value in given:
                yield value_text(value)
        elif given is not None:
            yield value_text(given)

    return answers


def _answers(given: Answers) -> "Tuple[bytes, ...] | Any":
    if given is None:
        return ()
    if is_payload(given):
        return (payload_bytes(given),)  # type: ignore[arg-type]
    return (payload_bytes(payload) for payload in given)  # type: ignore[union-attr]
