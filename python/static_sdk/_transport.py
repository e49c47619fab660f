"""A connection to the driver for threads."""

from __future__ import annotations

import os
import queue
import socket
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _process
from ._frames import FrameReader
from ._process import DEATH_SECONDS, Lease

#: A piece to write; a function is called when its turn comes.
Piece = Union[bytes, Callable[[], bytes]]

_READ_BYTES = 256 * 1024
_WRITE_BYTES = 256 * 1024


class Transport:
    """A connection with one thread that writes and one that reads.

    Callers do not write themselves: Ctrl-C in the middle of a frame would leave half of it in the socket.
    """

    def __init__(
        self,
        lease: Lease,
        connection: socket.socket,
        on_frame: Callable[[Dict[str, Any], bytes], None],
        on_end: Callable[[Optional[int]], None],
    ) -> None:
        self._lease = lease
        self._socket = connection
        self._frames = FrameReader(on_frame)
        self._on_end = on_end
        self._is_ending = False
        self._queue: "queue.SimpleQueue[Optional[Piece]]" = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="static-writer", daemon=True)
        self._reader = threading.Thread(target=self._read, name="static-reader", daemon=True)
        self._writer.start()
        self._reader.start()

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._lease.driver.pid

    def write(self, piece: Piece) -> None:
        """Queues a piece for writing. The queue is bounded because callers wait for their answers."""
        self._queue.put(piece)

    def end(self) -> None:
        """Asks the driver to close the client, without waiting for it."""
        self._is_ending = True
        self._queue.put(None)

    def close(self) -> None:
        """Closes the client and waits until the threads have ended, and the driver if this was its last client."""
        self.end()
        self._reader.join(_process.CLOSE_SECONDS)
        if self._reader.is_alive():
            if self._lease.is_alone:
                self._lease.driver.kill()
            else:
                # The driver is stuck, or closes this client later. Its other clients decide.
                self._cut()
        self._reader.join()
        self._writer.join()

    def abort(self) -> None:
        """Ends the connection at once. The driver closes the client when it notices."""
        self._is_ending = True
        self._cut()
        self.close()

    def forget(self) -> None:
        """In a forked process: closes its copy of the socket."""
        fd = self._socket.detach()
        if fd >= 0:
            os.close(fd)

    def _cut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It has already ended.
            pass

    def _write(self) -> None:
        ended = False
        while not ended:
            data, ended = self._gather()
            try:
                self._socket.sendall(data)
                if ended:
                    self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                # The driver is gone; the reader thread notices and fails all pending calls.
                return

    def _gather(self) -> Tuple[bytes, bool]:
        """Waits for data to write; also returns whether it is the last."""
        pieces: List[bytes] = []
        size = 0
        piece = self._queue.get()
        while piece is not None:
            data = piece if isinstance(piece, bytes) else piece()
            pieces.append(data)
            size += len(data)
            if size > _WRITE_BYTES:
                break
            try:
                piece = self._queue.get_nowait()
            except queue.Empty:
                break
        return b"".join(pieces), piece is None

    def _read(self) -> None:
        is_lost = True
        try:
            while True:
                chunk = self._socket.recv(_READ_BYTES)
                if not chunk:
                    break
                self._frames.push(chunk)
        except OSError:
            # The driver was killed.
            pass
        except Exception:
            # Malformed output: every call would fail.
            is_lost = False
        if not is_lost:
            self._cut()
        code = self._lease.driver.wait(DEATH_SECONDS) if is_lost and not self._is_ending else None
        if self._lease.give_back():
            self._lease.driver.wait_or_kill()
        # Wakes the writer thread, which may be waiting for data.
        self._queue.put(None)
        self._writer.join()
        self._socket.close()
        self._on_end(code)
