"""Payloads of one channel that have arrived from the driver, shared by all its readers.

Like the inbox for threads, without locks. A payload is taken and returned without a pause in between, so that a
cancelled task has either got it or left it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from typing import Any, Deque, Iterator, List, Mapping, Optional

from .._frames import encode_frame
from .._inbox import WINDOW, Reader
from .._values import Arrival, Settlement
from ._connection import Connection


class Inbox:
    """The read-ahead buffer of one channel."""

    def __init__(self, connection: Connection, on: int) -> None:
        self._connection = connection
        #: The number of the channel.
        self.on = on
        self._waiters: List["asyncio.Future[None]"] = []
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
    def has_ready(self) -> bool:
        """Whether a payload is available."""
        return len(self._ready) > 0 or len(self._returned) > 0

    async def take(self, reader: Reader, timeout: Optional[float] = None) -> Optional[Arrival]:
        """Waits for the next payload; None if the reader, the channel or the client has ended, or on a timeout."""
        loop = asyncio.get_running_loop()
        deadline = math.inf if timeout is None else loop.time() + timeout
        is_first_look = True
        while True:
            if self._is_at_end(reader):
                return None
            # The channel ended before this call: ask again, since it may have been reopened.
            if is_first_look and self._asked == 0:
                self._is_over = False
            is_first_look = False
            arrival = self.take_ready()
            if arrival is not None:
                return arrival
            if self._is_over:
                if self._error is not None:
                    raise self._connection.error(self._error)
                return None
            self._ask()
            left = deadline - loop.time()
            if left <= 0:
                return None
            await self._wait(left)

    def take_ready(self) -> Optional[Arrival]:
        """The next payload if one is available, else None."""
        self._take_back()
        if not self._ready or self._connection.is_closed:
            return None
        arrival = self._ready.popleft()
        self._last_taken = max(self._last_taken, arrival.token)
        self._ask()
        return arrival

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        waiter: "asyncio.Future[None]" = loop.create_future()
        self._waiters.append(waiter)
        timer = None if seconds == math.inf else loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if timer is not None:
                timer.cancel()

    def settle(self, token: int) -> None:
        """Marks a payload as processed. A finalizer may call it, in any thread."""
        self._settled.append(token)
        self._connection.say_later(self._settlement)

    def give_back(self, arrival: Arrival) -> None:
        """Delivers a payload again, unless it was settled. A finalizer may call it, in any thread."""
        header = {**arrival.header, "redelivered": True}
        self._returned.append(Arrival(arrival.token, header, arrival.payload, arrival.settlement))
        self._connection.soon(self.wake)

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """While a handler runs, it gets payloads that were read ahead and that no reader waits for."""
        self._connection.check()
        self._handlers += 1
        self._recall()
        self.wake()
        try:
            yield
        finally:
            self._handlers -= 1

    async def stop(self) -> None:
        """Stops all current readers. Buffered payloads stay for later readers."""
        if self._connection.is_over:
            return
        self._stops += 1
        self._run += 1
        self._asked = 0
        self._is_over = False
        call = self._connection.begin("close", on=self.on)
        self.wake()
        await call.wait()

    def clear(self) -> None:
        """Drops buffered payloads after the channel was left."""
        self._ready.clear()
        self._returned.clear()

    def wake(self) -> None:
        """Makes all waiting readers check again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _wake(waiter)

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
        self._run += 1
        self._recalled = self._run
        self._asked = 0
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

    def _ask(self) -> None:
        missing = WINDOW - self._asked - len(self._ready)
        if missing >= WINDOW // 2:
            self._asked += missing
            self._connection.say("more", on=self.on, count=missing, run=self._run)

    def _hear(self, header: Mapping[str, Any], data: bytes) -> None:
        is_current = header["run"] == self._run
        if is_current:
            self._asked -= 1
        if header["event"] == "payload":
            token = header["token"]
            if header["run"] < self._recalled:
                self._give_up([token])
                return
            self._ready.append(Arrival(token, header, data, Settlement(self, token)))
            if self._handlers > 0 and not self._waiters:
                self._recall()
        elif is_current:
            self._is_over = True
            self._error = header.get("error")
        self.wake()

    def _settlement(self) -> bytes:
        """One frame with everything settled since the last one."""
        tokens = []
        while self._settled:
            tokens.append(self._settled.popleft())
        return encode_frame({"do": "settle", "on": self.on, "tokens": tokens}) if tokens else b""


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
