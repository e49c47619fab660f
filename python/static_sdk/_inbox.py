"""Payloads of one channel that have come from the driver, for all who read it.

So many are read ahead, and no more: what nobody takes waits in the driver, on disk. Read ahead is not settled: the
driver gives it again after a crash until ``settle`` is called.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Any, Deque, List, Mapping, NamedTuple, Optional, Protocol

from ._connection import LOOK_SECONDS, Connection
from ._transport import encode_frame

#: How many are read ahead.
WINDOW = 64


class Arrival(NamedTuple):
    """A payload and what the driver says of it."""

    token: int
    header: Mapping[str, Any]
    payload: bytes


class Reader(Protocol):
    """Who takes payloads."""

    def is_over(self) -> bool:
        """Whether it reads no more. Raises when it must not go on."""
        ...


class Inbox:
    """What is read ahead of one channel."""

    def __init__(self, connection: Connection, on: int) -> None:
        self._connection = connection
        self._on = on
        # A plain lock and no Condition: Ctrl-C inside a Condition can leave it locked, and the thread that reads the
        # pipe would wait for ever.
        self._lock = threading.Lock()
        #: One lock for each who waits, released to wake it.
        self._sleepers: List[threading.Lock] = []
        self._ready: Deque[Arrival] = deque()
        self._settled: Deque[int] = deque()
        #: What was asked for and has not come.
        self._asked = 0
        #: Rises with every ``stop``: answers to what was asked before are recognised by it.
        self._run = 0
        self._is_over = False
        self._error: Optional[Mapping[str, Any]] = None
        connection.listen(on, self._hear, self.wake)

    @property
    def run(self) -> int:
        """How often it was stopped."""
        return self._run

    @property
    def has_ready(self) -> bool:
        """Whether a payload is here."""
        return len(self._ready) > 0

    def take(self, reader: Reader, timeout: Optional[float] = None) -> Optional[Arrival]:
        """The next payload; None when the reader, the channel or the client is over, or the time is."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        is_first_look = True
        while True:
            # Before the lock, which in a forked process may be held for ever, and behind it, where nobody is missed who
            # wakes all that sleep.
            if self._is_at_end(reader):
                return None
            left = deadline - time.monotonic()
            with self._lock:
                if self._is_at_end(reader):
                    return None
                # Over before somebody asked again: perhaps it no longer is.
                if is_first_look and self._asked == 0:
                    self._is_over = False
                is_first_look = False
                if self._ready:
                    arrival = self._ready.popleft()
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
        """The application is done with a payload. Takes no lock: a finalizer may call it."""
        self._settled.append(token)
        self._connection.say_later(self._settlement)

    def stop(self) -> None:
        """Ends all who read now. What is here stays for those who come later."""
        if self._connection.is_over:
            return
        with self._lock:
            # In one step: what is asked for after it must not reach the driver before it.
            self._run += 1
            self._asked = 0
            self._is_over = False
            call = self._connection.begin("close", on=self._on)
            self._wake()
        call.wait()

    def clear(self) -> None:
        """The channel was left."""
        with self._lock:
            self._ready.clear()

    def wake(self) -> None:
        """All who wait look again."""
        # In a forked process nobody waits, and the lock may be held for ever.
        if self._connection.is_forked:
            return
        with self._lock:
            self._wake()

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
                self._ready.append(Arrival(header["token"], header, data))
            elif is_current:
                self._is_over = True
                self._error = header.get("error")
            self._wake()

    def _settlement(self) -> bytes:
        """What was settled since the last time, in one frame."""
        tokens = []
        while self._settled:
            tokens.append(self._settled.popleft())
        return encode_frame({"do": "settle", "on": self._on, "tokens": tokens}) if tokens else b""
