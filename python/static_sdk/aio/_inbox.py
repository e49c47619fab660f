"""The inbox of a channel for asyncio: like the one for threads, without locks.

A payload is taken and returned without a pause in between, so that a cancelled task has either got it or left it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any, Iterator, List, Mapping, Optional

from .._read_ahead import Reader, ReadAhead
from .._values import Arrival
from ._connection import Connection


class Inbox(ReadAhead):
    """The read-ahead buffer of one channel, shared by tasks."""

    def __init__(self, connection: Connection, on: int) -> None:
        self._waiters: List["asyncio.Future[None]"] = []
        super().__init__(connection, on)

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

    def give_back(self, arrival: Arrival) -> None:
        """Delivers a payload again, unless it was settled. A finalizer may call it, in any thread."""
        super().give_back(arrival)
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
        call = self._begin_stop()
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

    def _hear(self, header: Mapping[str, Any], data: bytes) -> None:
        self._arrived(header, data, len(self._waiters) > 0)
        self.wake()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
