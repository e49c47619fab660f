"""The inbox of a channel for threads."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import Any, Iterator, List, Mapping, Optional

from ._connection import LOOK_SECONDS, Connection
from ._read_ahead import Reader, ReadAhead
from ._values import Arrival


class Inbox(ReadAhead):
    """The read-ahead buffer of one channel, shared by threads."""

    def __init__(self, connection: Connection, on: int) -> None:
        # A plain lock instead of a Condition: Ctrl-C inside a Condition can leave it locked, and the thread that reads
        # the pipe would wait forever.
        self._lock = threading.Lock()
        #: One lock per waiting thread, released to wake it.
        self._sleepers: List[threading.Lock] = []
        super().__init__(connection, on)

    def take(self, reader: Reader, timeout: Optional[float] = None) -> Optional[Arrival]:
        """Waits for the next payload; None if the reader, the channel or the client has ended, or on a timeout."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        is_first_look = True
        while True:
            # Check before taking the lock, which in a forked process may be held forever, and again under the lock, so
            # that no wake-up is missed.
            if self._is_at_end(reader):
                return None
            left = deadline - time.monotonic()
            with self._lock:
                if self._is_at_end(reader):
                    return None
                # The channel ended before this call: ask again, since it may have been reopened.
                if is_first_look and self._asked == 0:
                    self._is_over = False
                is_first_look = False
                self._take_back()
                if self._ready:
                    arrival = self._ready[0]
                    self._last_taken = max(self._last_taken, arrival.token)
                    # A thread that closes the client meanwhile either reports this payload as taken, or is noticed
                    # here.
                    if self._is_at_end(reader):
                        return None
                    self._ready.popleft()
                    self._ask()
                    return arrival
                if self._is_over:
                    if self._error is not None:
                        raise self._connection.error(self._error)
                    return None
                self._ask()
                if left <= 0:
                    return None
                sleeper = threading.Lock()
                sleeper.acquire()
                self._sleepers.append(sleeper)
            if not sleeper.acquire(timeout=min(left, LOOK_SECONDS)):
                self._forget(sleeper)

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """While a handler runs, it gets payloads that were read ahead and that no reader waits for."""
        self._connection.check()
        with self._lock:
            self._handlers += 1
            self._recall()
            self._wake()
        try:
            yield
        finally:
            with self._lock:
                self._handlers -= 1

    def stop(self) -> None:
        """Stops all current readers. Buffered payloads stay for later readers."""
        if self._connection.is_over:
            return
        with self._lock:
            # Under one lock: a later request must not reach the driver before this one.
            call = self._begin_stop()
            self._wake()
        call.wait()

    def clear(self) -> None:
        """Drops buffered payloads after the channel was left."""
        with self._lock:
            self._ready.clear()
            self._returned.clear()

    def wake(self) -> None:
        """Makes all waiting readers check again."""
        # In a forked process no thread waits, and the lock may be held forever.
        if self._connection.is_forked:
            return
        with self._lock:
            self._wake()

    def _wake(self) -> None:
        for sleeper in self._sleepers:
            sleeper.release()
        self._sleepers.clear()

    def _forget(self, sleeper: threading.Lock) -> None:
        with self._lock:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def _hear(self, header: Mapping[str, Any], data: bytes) -> None:
        with self._lock:
            self._arrived(header, data, len(self._sleepers) > 0)
            self._wake()
