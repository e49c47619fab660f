"""Calls to the driver, and events from it."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Protocol, Tuple, TypeVar

from ._driver import driver_command
from ._handler_log import HandlerLog
from ._frames import MAX_FRAME_BYTES, encode_frame
from ._process import dial
from ._transport import Piece, Transport
from .errors import StaticError, error_from, make_error, with_prefix

Answer = Tuple[Any, bytes]

#: How long one wait on a lock may take before the state is checked again. Python may notice a Ctrl-C that arrives just
#: before a wait only after that wait.
LOOK_SECONDS = 0.5


class Pending(Protocol):
    """A call that is not answered yet."""

    number: int

    def succeed(self, answer: Answer) -> None:
        """Passes on the answer."""

    def fail(self, error: Callable[[], StaticError]) -> None:
        """Passes on the error."""


AnyCall = TypeVar("AnyCall", bound=Pending)
Result = TypeVar("Result")
Hear = Callable[[Mapping[str, Any], bytes], None]


class BaseConnection(Generic[AnyCall]):
    """Matches answers to calls and events to their handlers. Subclasses do the waiting, the reading and the writing."""

    def __init__(self, api_url: Optional[str], log: HandlerLog, is_low_level: bool) -> None:
        #: Warns about handlers that fail.
        self.log = log
        #: Whether the texts of errors begin with the prefixes of the low-level client.
        self._is_low_level = is_low_level
        #: Base URL of the pages that explain errors. The driver reports it if the program does not pass one.
        self.api_url = api_url
        self._ids = itertools.count(1)
        self._calls: Dict[int, AnyCall] = {}
        #: Handlers for the events of calls that have any.
        self._hearers: Dict[int, Hear] = {}
        #: Handlers for the events of each channel, including its end.
        self._listeners: Dict[int, Hear] = {}
        self._wakers: List[Callable[[], None]] = []
        #: Called before the driver is asked to close the client.
        self._closers: List[Callable[[], None]] = []
        #: Gets a token for a proof.
        self.mint: Callable[[Mapping[str, Any]], None] = lambda header: None
        self._failure: Optional[Callable[[], StaticError]] = None
        self._death: Optional[Callable[[], StaticError]] = None
        self._closing = False
        self._process = os.getpid()

    def _new_call(self, number: int, done: Optional[Callable[[], None]] = None) -> AnyCall:
        raise NotImplementedError

    def _write(self, piece: Piece) -> None:
        """Queues a piece for writing. Takes no lock: a finalizer may call it."""
        raise NotImplementedError

    def _forget(self) -> None:
        """In a forked process: closes its copies of file descriptors."""
        raise NotImplementedError

    @property
    def is_closed(self) -> bool:
        """Whether this process is closing or has closed it: then nothing more is passed on to readers."""
        return self._closing

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that created the client."""
        return self._process != os.getpid()

    @property
    def is_over(self) -> bool:
        """Whether no more calls are possible, for any reason."""
        return self._failure is not None

    @property
    def death(self) -> Optional[StaticError]:
        """Why the manager has died; None while it is running."""
        return None if self._death is None else self._death()

    def check(self) -> None:
        """Raises if no more calls are possible."""
        if self._failure is not None:
            raise self._failure()

    def check_manager(self) -> None:
        """Raises if the manager has died or is closing."""
        self.check()
        if self._closing:
            raise self._closed()
        if self._death is not None:
            raise self._death()

    def begin(self, do: str, data: bytes = b"", **fields: Any) -> AnyCall:
        """Starts a call without waiting for the answer."""
        self.check()
        return self._begin(self._new_call(next(self._ids)), do, data, fields)

    def begin_hearing(self, do: str, hear: Hear, done: Callable[[], None], **fields: Any) -> AnyCall:
        """Like ``begin``, for a call with events. ``done`` is called after the answer."""
        self.check()
        number = next(self._ids)
        self._hearers[number] = hear

        def end() -> None:
            self._hearers.pop(number, None)
            done()

        return self._begin(self._new_call(number, end), do, b"", fields)

    def _begin(self, call: AnyCall, do: str, data: bytes, fields: Mapping[str, Any]) -> AnyCall:
        number = call.number
        frame = encode_frame({"id": number, "do": do, **fields}, data)
        if len(frame) > MAX_FRAME_BYTES:
            raise self._make(
                "too_large", f"The request has {len(frame):,} bytes. Send at most 262,144 bytes in one message."
            )
        self._calls[number] = call
        self._write(frame)
        # The driver may have exited after the first check; then no answer will come.
        if self._failure is not None and self._calls.pop(number, None) is not None:
            raise self._failure()
        return call

    def say(self, do: str, **fields: Any) -> None:
        """Sends a notification, which has no answer."""
        self._write(encode_frame({"do": do, **fields}))

    def say_later(self, piece: Callable[[], bytes]) -> None:
        """Sends a frame that is built when it is written. Takes no lock: a finalizer may call it."""
        if self._failure is None:
            self._write(piece)

    def leave(self, on: int) -> None:
        """Ends an iterator in the driver without waiting for it. Takes no lock: a finalizer may call it."""
        if self._failure is None:
            self._write(encode_frame({"id": next(self._ids), "do": "return", "on": on}))

    def listen(
        self,
        on: int,
        hear: Callable[[Mapping[str, Any], bytes], None],
        wake: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        """Registers a handler for the events of a channel.

        ``wake`` is called when ``check`` may have changed, ``close`` before the client is closed.
        """
        self._listeners[on] = hear
        self._wakers.append(wake)
        self._closers.append(close)

    def error(self, told: Mapping[str, Any]) -> StaticError:
        """Converts an error from the driver."""
        return self._prefixed(error_from(told, self.api_url))

    def explain(self, work: Callable[[], Result]) -> Result:
        """Runs something whose errors leave the package like those of the driver."""
        try:
            return work()
        except StaticError as error:
            raise self._prefixed(error)

    def _make(self, code: str, message: str) -> StaticError:
        return self._prefixed(make_error(code, message, self.api_url))

    def _prefixed(self, error: StaticError) -> StaticError:
        return with_prefix(error) if self._is_low_level else error

    def _opened(self) -> None:
        """From now on, the connection ends with the program and in a forked process."""
        _open.add(self)

    def _begin_closing(self) -> None:
        was_closing = self._closing
        # First, so that readers in other threads take nothing after this notification.
        self._closing = True
        if self._failure is None and not was_closing:
            for close in list(self._closers):
                close()
            self.say("bye")

    def forked(self) -> None:
        """In a forked process: makes every further call fail."""
        process = self._process
        self._failure = lambda: self._make(
            "closed",
            f"This client belongs to process {process}, which created it before fork(). Create a new client in process "
            f"{os.getpid()}, with its own data directory.",
        )
        self._forget()

    def _hear(self, header: Dict[str, Any], data: bytes) -> None:
        number = header.get("id")
        if number is not None:
            call = self._calls.pop(number, None)
            if call is None:
                return
            if "error" not in header:
                call.succeed((header.get("result"), data))
            else:
                call.fail(lambda: self.error(header["error"]))
        elif header["event"] in ("handle", "serve", "cancelled", "progress"):
            hear = self._hearers.get(header["call"])
            if hear is not None:
                hear(header, data)
        elif header["event"] == "mint":
            self.mint(header)
        elif header["event"] == "died":
            self._death = lambda: self.error(header["error"])
            self._wake()
        else:
            self._listeners[header["on"]](header, data)

    def _over(self, code: Optional[int]) -> None:
        """Called when the connection has ended, with the driver's exit code; None if the driver still runs."""
        if self._closing:
            failure = self._closed
        else:
            if code is None:
                how = "closed the connection"
            else:
                how = f"exited by signal {-code}" if code < 0 else f"exited with status {code}"

            def failure() -> StaticError:
                return self._make(
                    "listener_died", f"The driver process {how}. Close this client and create a new one."
                )

        self._failure = failure
        while self._calls:
            try:
                _, call = self._calls.popitem()
            except KeyError:
                break
            call.fail(failure)
        self._wake()

    def _closed(self) -> StaticError:
        return self._make("closed", "The client is closed. Create a new one.")

    def _wake(self) -> None:
        for wake in list(self._wakers):
            wake()


class Call:
    """A pending call."""

    __slots__ = ("number", "_wake", "_is_answered", "_answer", "_error", "_done")

    def __init__(self, number: int, done: Optional[Callable[[], None]] = None) -> None:
        self.number = number
        #: Called after the answer.
        self._done = done
        self._wake = threading.Lock()
        self._wake.acquire()
        self._is_answered = False
        self._answer: Answer = (None, b"")
        self._error: Optional[Callable[[], StaticError]] = None

    def succeed(self, answer: Answer) -> None:
        self._answer = answer
        self._end()

    def fail(self, error: Callable[[], StaticError]) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        self._is_answered = True
        self._wake.release()
        if self._done is not None:
            self._done()

    def wait(self) -> Answer:
        """Waits for the answer. May be called more than once."""
        while not self._is_answered:
            self._wake.acquire(timeout=LOOK_SECONDS)
        if self._error is not None:
            raise self._error()
        return self._answer


class Connection(BaseConnection[Call]):
    """A connection for threads: any number of them may call at the same time."""

    def __init__(self, api_url: Optional[str], log: HandlerLog, is_low_level: bool) -> None:
        super().__init__(api_url, log, is_low_level)
        self._transport = Transport(*dial(driver_command()), self._hear, self._over)
        self._opened()

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._transport.pid

    def call(self, do: str, data: bytes = b"", **fields: Any) -> Answer:
        """Calls and waits for the answer: its JSON result and its binary data."""
        return self.begin(do, data, **fields).wait()

    def end(self) -> None:
        """Asks the driver to close the client, without waiting for it."""
        if not self.is_forked:
            self._begin_closing()
            self._transport.end()

    def close(self) -> None:
        """Closes the client. Pending calls fail with ``closed``."""
        if not self.is_forked:
            self._begin_closing()
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once, even while the client is connecting."""
        if not self.is_forked:
            self._closing = True
            self._transport.abort()

    def _new_call(self, number: int, done: Optional[Callable[[], None]] = None) -> Call:
        return Call(number, done)

    def _write(self, piece: Piece) -> None:
        self._transport.write(piece)

    def _forget(self) -> None:
        self._transport.forget()


_open: "weakref.WeakSet[BaseConnection[Any]]" = weakref.WeakSet()


def _close_all() -> None:
    for connection in list(_open):
        if isinstance(connection, Connection):
            connection.close()


def _after_fork() -> None:
    for connection in list(_open):
        connection.forked()
    _open.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
