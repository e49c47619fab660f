"""Payloads of one channel that have arrived from the driver, shared by all its readers.

The read-ahead is limited to ``WINDOW``; further payloads wait in the driver, on disk. Reading ahead does not settle:
until ``settle`` is called, a payload is delivered again.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from typing import Any, Deque, Iterator, List, Mapping, Optional, Protocol

from ._connection import LOOK_SECONDS, Connection
from ._frames import encode_frame
from ._values import Arrival, Settlement

#: The maximum number of payloads to read ahead.
WINDOW = 64


class Reader(Protocol):
    """A consumer of payloads."""

    def is_over(self) -> bool:
        """Whether it has stopped reading. Raises if it must not continue."""
        ...


class Inbox:
    """The read-ahead buffer of one channel."""

    def __init__(self, connection: Connection, on: int) -> None:
        self._connection = connection
        self._on = on
        # A plain lock instead of a Condition: Ctrl-C inside a Condition can leave it locked, and the thread that reads
        # the pipe would wait forever.
        self._lock = threading.Lock()
        #: One lock per waiting thread, released to wake it.
        self._sleepers: List[threading.Lock] = []
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

    def settle(self, token: int) -> None:
        """Marks a payload as processed. Takes no lock: a finalizer may call it."""
        self._settled.append(token)
        self._connection.say_later(self._settlement)

    def give_back(self, arrival: Arrival) -> None:
        """Delivers a payload again, unless it was settled. Takes no lock: a finalizer may call it."""
        header = {**arrival.header, "redelivered": True}
        self._returned.append(Arrival(arrival.token, header, arrival.payload, arrival.settlement))

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
            self._stops += 1
            self._run += 1
            self._asked = 0
            self._is_over = False
            call = self._connection.begin("close", on=self._on)
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
        self._connection.say("recall", on=self._on, tokens=tokens, before=self._recalled)

    def _close(self) -> None:
        """Tells the driver which payloads readers have seen: only those are marked as redelivered."""
        if self._last_taken > 0:
            self._connection.say("given", on=self._on, upTo=self._last_taken)

    def _is_at_end(self, reader: Reader) -> bool:
        if self._connection.is_closed or reader.is_over():
            return True
        self._connection.check()
        return False

    def _wake(self) -> None:
        for sleeper in self._sleepers:
            sleeper.release()
        self._sleepers.clear()

    def _forget(self, sleeper: threading.Lock) -> None:
        with self._lock:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    def _ask(self) -> None:
        missing = WINDOW - self._asked - len(self._ready)
        if missing >= WINDOW // 2:
            self._asked += missing
            self._connection.say("more", on=self._on, count=missing, run=self._run)

    def _hear(self, header: Mapping[str, Any], data: bytes) -> None:
        with self._lock:
            is_current = header["run"] == self._run
            if is_current:
                self._asked -= 1
            if header["event"] == "payload":
                token = header["token"]
                if header["run"] < self._recalled:
                    self._give_up([token])
                    return
                self._ready.append(Arrival(token, header, data, Settlement(self, token)))
                if self._handlers > 0 and not self._sleepers:
                    self._recall()
            elif is_current:
                self._is_over = True
                self._error = header.get("error")
            self._wake()

    def _settlement(self) -> bytes:
        """One frame with everything settled since the last one."""
        tokens = []
        while self._settled:
            tokens.append(self._settled.popleft())
        return encode_frame({"do": "settle", "on": self._on, "tokens": tokens}) if tokens else b""
