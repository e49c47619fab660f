"""A connection to the driver for one event loop."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import weakref
from collections import deque
from typing import Any, Callable, Deque, Optional, cast

from .. import _process
from .._connection import Answer, BaseConnection
from .._driver import driver_command
from .._frames import FrameReader
from .._handler_log import HandlerLog
from .._process import DEATH_SECONDS, Lease, dial
from .._transport import Piece
from ..errors import StaticError, make_error


class Call:
    """A pending call."""

    __slots__ = ("number", "_done", "_future")

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop, done: Optional[Callable[[], None]]) -> None:
        self.number = number
        #: Called after the answer.
        self._done = done
        self._future: "asyncio.Future[Answer]" = loop.create_future()

    def succeed(self, answer: Answer) -> None:
        self._future.set_result(answer)
        self._end()

    def fail(self, error: Callable[[], StaticError]) -> None:
        self._future.set_exception(error())
        # The caller may have been cancelled: then asyncio must not warn that the exception was never retrieved.
        self._future.exception()
        self._end()

    def _end(self) -> None:
        if self._done is not None:
            self._done()

    async def wait(self) -> Answer:
        """Waits for the answer. May be awaited again, even after a cancelled wait."""
        return await asyncio.shield(self._future)


class Connection(BaseConnection[Call], asyncio.Protocol):
    """A connection for the tasks of one event loop."""

    def __init__(self, api_url: Optional[str], log: HandlerLog, lease: Lease, connection: socket.socket) -> None:
        super().__init__(api_url, log, is_low_level=False)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lease = lease
        self._socket = connection
        self._frames = FrameReader(self._hear)
        self._transport: Optional[asyncio.Transport] = None
        #: Pieces to write together at the end of the loop's turn.
        self._pieces: Deque[Piece] = deque()
        self._is_flushing = False
        #: This side has ended: nothing more can be written.
        self._is_written_out = False
        self._is_malformed = False
        #: Done when the connection has ended, and the driver with it if this was its last client.
        self._ended: "asyncio.Future[None]" = self._loop.create_future()

    @classmethod
    async def open(cls, api_url: Optional[str], log: HandlerLog) -> "Connection":
        """Connects to the driver, and starts it if it is not running."""
        loop = asyncio.get_running_loop()
        # May ask Node for its version, which takes a moment.
        command = await loop.run_in_executor(None, driver_command)
        lease, own = dial(command)
        try:
            connection = cls(api_url, log, lease, own)
            await loop.create_unix_connection(lambda: connection, sock=own)
        except BaseException:
            own.close()
            lease.drop()
            raise
        connection._opened()
        # An event loop may end before its connections do. Then they end when they are garbage-collected.
        weakref.finalize(connection, lease.drop).atexit = False
        return connection

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._lease.driver.pid

    async def call(self, do: str, data: bytes = b"", **fields: Any) -> Answer:
        """Calls and waits for the answer. When it is cancelled, the driver ends the wait if it can."""
        call = self.begin(do, data, **fields)
        try:
            return await call.wait()
        except asyncio.CancelledError:
            self.cancel(call)
            raise

    def cancel(self, call: Call) -> None:
        """Asks the driver to end the wait of a call, which is still answered."""
        if self._failure is None:
            self.say("cancel", call=call.number)

    def check(self) -> None:
        super().check()
        if asyncio.get_running_loop() is not self._loop:
            raise make_error(
                "invalid_request",
                "This client belongs to another event loop. Create a client in this one, with its own data directory.",
                self.api_url,
            )

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls a function in the event loop. A finalizer may call it, in any thread."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The event loop is closed.
            pass

    def end(self) -> None:
        """Asks the driver to close the client, without waiting for it. A finalizer may call it, in any thread."""
        if not self.is_forked:
            self.soon(self._finish_writing)

    async def close(self) -> None:
        """Closes the client. Pending calls fail with ``closed``."""
        if self.is_forked:
            return
        self._finish_writing()
        if not await self._has_ended():
            if self._lease.is_alone:
                self._lease.driver.kill()
            elif self._transport is not None:
                # The driver is stuck, or closes this client later. Its other clients decide.
                self._transport.abort()
            await self._has_ended()

    async def abort(self) -> None:
        """Ends the connection at once, even while the client is connecting."""
        if self.is_forked:
            return
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
        await self._has_ended()

    async def _has_ended(self) -> bool:
        done, _ = await asyncio.wait({self._ended}, timeout=_process.CLOSE_SECONDS)
        return len(done) > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: other event loops have their own classes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._frames.push(data)
        except Exception:
            # Malformed output: every call would fail.
            self._is_malformed = True
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, error: Optional[Exception]) -> None:
        # Not as a task: the event loop may be ending, which would leave it pending.
        threading.Thread(target=self._end, name="static_sdk end", daemon=True).start()

    def _end(self) -> None:
        """Waits for the driver in a separate thread."""
        driver = self._lease.driver
        is_lost = not self._closing and not self._is_malformed
        code = driver.wait(DEATH_SECONDS) if is_lost else None
        if self._lease.give_back():
            driver.wait_or_kill()
        self.soon(lambda: self._has_lost(code))

    def _has_lost(self, code: Optional[int]) -> None:
        self._over(code)
        if not self._ended.done():
            self._ended.set_result(None)

    def _finish_writing(self) -> None:
        """Writes the remaining data, then ends this side. The driver closes the client and ends the other side."""
        self._begin_closing()
        self._flush()
        if self._transport is not None and not self._is_written_out and not self._transport.is_closing():
            self._transport.write_eof()
        self._is_written_out = True

    def _new_call(self, number: int, done: Optional[Callable[[], None]] = None) -> Call:
        return Call(number, self._loop, done)

    def _write(self, piece: Piece) -> None:
        self._pieces.append(piece)
        if threading.get_ident() != self._thread:
            self.soon(self._flush)
        elif not self._is_flushing and not self._loop.is_closed():
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        pieces = []
        while self._pieces:
            piece = self._pieces.popleft()
            pieces.append(piece if isinstance(piece, bytes) else piece())
        data = b"".join(pieces)
        if data and self._transport is not None and not self._is_written_out and not self._transport.is_closing():
            self._transport.write(data)

    def _forget(self) -> None:
        fd = self._socket.detach()
        if fd >= 0:
            os.close(fd)
