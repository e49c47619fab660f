"""Payloads of one channel that have arrived from the driver, shared by all its readers: what both inboxes have in common.

The read-ahead is limited to ``WINDOW``; further payloads wait in the driver, on disk. Reading ahead does not settle:
until ``settle`` is called, a payload is delivered again.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, List, Mapping, Optional, Protocol

from ._connection import BaseConnection
from ._frames import encode_frame
from ._values import Arrival, Settlement

#: The maximum number of payloads to read ahead.
WINDOW = 64


class Reader(Protocol):
    """A consumer of payloads."""

    def is_over(self) -> bool:
        """Whether it has stopped reading. Raises if it must not continue."""
        ...


class ReadAhead:
    """The read-ahead buffer of one channel. It waits for nothing; where threads share it, its users hold their lock."""

    def __init__(self, connection: BaseConnection[Any], on: int) -> None:
        self._connection: Any = connection
        #: The number of the channel.
        self.on = on
        self._ready: Deque[Arrival] = deque()
        self._settled: Deque[int] = deque()
        #: Payloads taken and given back unsettled.
        self._returned: Deque[Arrival] = deque()
        #: The last payload taken.
        self._last_taken = 0
        #: Payloads that were requested and have not arrived.
        self._asked = 0
        #: Incremented by every ``stop`` and recall, to recognise answers to requests made before it.
        self._run = 0
        #: The run of the last recall: payloads of earlier ones go back to the driver.
        self._recalled = 0
        self._stops = 0
        #: Handlers running on this channel, alongside its readers.
        self._handlers = 0
        self._is_over = False
        self._error: Optional[Mapping[str, Any]] = None
        connection.listen(on, self._hear, self.wake, self._close)

    @property
    def stops(self) -> int:
        """The number of ``stop`` calls so far."""
        return self._stops

    @property
    def connection(self) -> Any:
        return self._connection

    @property
    def has_ready(self) -> bool:
        """Whether a payload is available."""
        return len(self._ready) > 0 or len(self._returned) > 0

    def settle(self, token: int) -> None:
        """Marks a payload as processed. Takes no lock: a finalizer may call it, in any thread."""
        self._settled.append(token)
        self._connection.say_later(self._settlement)

    def give_back(self, arrival: Arrival) -> None:
        """Delivers a payload again, unless it was settled. Takes no lock: a finalizer may call it, in any thread."""
        header = {**arrival.header, "redelivered": True}
        self._returned.append(Arrival(arrival.token, header, arrival.payload, arrival.settlement))

    def wake(self) -> None:
        """Makes all waiting readers check again."""
        raise NotImplementedError

    def _hear(self, header: Mapping[str, Any], data: bytes) -> None:
        raise NotImplementedError

    def _begin_run(self) -> None:
        """Answers to earlier requests no longer count."""
        self._run += 1
        self._asked = 0

    def _begin_stop(self) -> Any:
        """Ends the current run, and returns the call that tells the driver."""
        self._stops += 1
        self._begin_run()
        self._is_over = False
        return self._connection.begin("close", on=self.on)

    def _arrived(self, header: Mapping[str, Any], data: bytes, is_awaited: bool) -> None:
        """Takes in a payload or the end of the channel; ``is_awaited``: readers wait for it."""
        is_current = header["run"] == self._run
        if is_current:
            self._asked -= 1
        if header["event"] == "payload":
            token = header["token"]
            if header["run"] < self._recalled:
                self._give_up([token])
                return
            self._ready.append(Arrival(token, header, data, Settlement(self, token)))
            if self._handlers > 0 and not is_awaited:
                self._recall()
        elif is_current:
            self._is_over = True
            self._error = header.get("error")

    def _ask(self) -> None:
        missing = WINDOW - self._asked - len(self._ready)
        if missing >= WINDOW // 2:
            self._asked += missing
            self._connection.say("more", on=self.on, count=missing, run=self._run)

    def _take_back(self) -> None:
        """Returns given-back payloads to their place."""
        returned = []
        while self._returned:
            arrival = self._returned.popleft()
            if not arrival.settlement.is_settled:
                returned.append(arrival)
        if returned:
            self._ready = deque(sorted([*returned, *self._ready], key=lambda arrival: arrival.token))

    def _recall(self) -> None:
        """Gives every payload that no reader has taken back to the driver."""
        self._take_back()
        self._close()
        self._begin_run()
        self._recalled = self._run
        self._give_up([arrival.token for arrival in self._ready])
        self._ready.clear()

    def _give_up(self, tokens: List[int]) -> None:
        self._connection.say("recall", on=self.on, tokens=tokens, before=self._recalled)

    def _close(self) -> None:
        """Tells the driver which payloads readers have seen: only those are marked as redelivered."""
        if self._last_taken > 0:
            self._connection.say("given", on=self.on, upTo=self._last_taken)

    def _is_at_end(self, reader: Reader) -> bool:
        if self._connection.is_closed or reader.is_over():
            return True
        self._connection.check()
        return False

    def _settlement(self) -> bytes:
        """One frame with everything settled since the last one."""
        tokens = []
        while self._settled:
            tokens.append(self._settled.popleft())
        return encode_frame({"do": "settle", "on": self.on, "tokens": tokens}) if tokens else b""
