"""The driver process and the frames exchanged with it.

A frame is the length of the rest (4 bytes, big endian), the length of the header (4 bytes), the header as JSON, and raw
bytes.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import subprocess
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

#: A piece to write; a function is called when its turn comes.
Piece = Union[bytes, Callable[[], bytes]]

#: The longest frame that the driver accepts.
MAX_FRAME_BYTES = 1024 * 1024
#: How long the driver may take to shut down.
CLOSE_SECONDS = 10.0
#: More than any answer needs; a longer one means that the two sides are out of sync.
MAX_ANSWER_BYTES = 16 * 1024 * 1024

_READ_BYTES = 256 * 1024
_WRITE_BYTES = 256 * 1024
_LENGTHS = struct.Struct(">II")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def encode_frame(header: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Encodes a frame."""
    text = _encode(header).encode("utf-8")
    return _LENGTHS.pack(4 + len(text) + len(data), len(text)) + text + data


class Transport:
    """A child process that exits when this one does.

    One thread writes and one reads. Callers do not write themselves: Ctrl-C in the middle of a frame would leave half
    of it in the pipe.
    """

    def __init__(
        self,
        command: List[str],
        environment: Mapping[str, str],
        on_frame: Callable[[Dict[str, Any], bytes], None],
        on_end: Callable[[int], None],
    ) -> None:
        self._on_frame = on_frame
        self._on_end = on_end
        self._queue: "queue.SimpleQueue[Optional[Piece]]" = queue.SimpleQueue()
        child_input, self._write_fd = os.pipe()
        self._read_fd, child_output = os.pipe()
        try:
            # In its own session: a terminal sends Ctrl-C to the whole group, and the driver must shut down cleanly.
            self._process = subprocess.Popen(
                command, stdin=child_input, stdout=child_output, env=dict(environment), start_new_session=True
            )
        except BaseException:
            os.close(self._write_fd)
            os.close(self._read_fd)
            raise
        finally:
            os.close(child_input)
            os.close(child_output)
        self._writer = threading.Thread(target=self._write, name="static-writer", daemon=True)
        self._reader = threading.Thread(target=self._read, name="static-reader", daemon=True)
        self._writer.start()
        self._reader.start()

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._process.pid

    def write(self, piece: Piece) -> None:
        """Queues a piece for writing. The queue is bounded because callers wait for their answers."""
        self._queue.put(piece)

    def end(self) -> None:
        """Asks the driver to exit, without waiting for it."""
        self._queue.put(None)

    def close(self) -> None:
        """Shuts the driver down and waits until it and the threads have ended."""
        self.end()
        self._reader.join(CLOSE_SECONDS)
        if self._reader.is_alive():
            self._process.kill()
        self._reader.join()
        self._writer.join()

    def forget(self) -> None:
        """In a forked process: closes the pipes, so that the driver exits with the process that started it."""
        for fd in (self._write_fd, self._read_fd):
            if fd >= 0:
                os.close(fd)
        self._write_fd = self._read_fd = -1

    def _write(self) -> None:
        ended = False
        while not ended:
            data, ended = self._gather()
            ended = not self._write_all(data) or ended
        fd, self._write_fd = self._write_fd, -1
        os.close(fd)

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

    def _write_all(self, data: bytes) -> bool:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._write_fd, rest) :]
        except OSError:
            # The driver is gone; the reader thread notices and fails all pending calls.
            return False
        return True

    def _read(self) -> None:
        try:
            self._read_frames()
        except Exception:
            # Malformed output. Kill the driver, so that all pending calls fail.
            self._process.kill()
        fd, self._read_fd = self._read_fd, -1
        os.close(fd)
        try:
            code = self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        # Wakes the writer thread, which may be waiting for data.
        self.end()
        self._on_end(code)

    def _read_frames(self) -> None:
        buffer = bytearray()
        while True:
            chunk = os.read(self._read_fd, _READ_BYTES)
            if not chunk:
                return
            buffer += chunk
            at = 0
            while len(buffer) - at >= 8:
                length, header_length = _LENGTHS.unpack_from(buffer, at)
                if length > MAX_ANSWER_BYTES:
                    raise ValueError(f"The driver sent a frame of {length} bytes (limit: {MAX_ANSWER_BYTES}).")
                end = at + 4 + length
                if len(buffer) < end:
                    break
                start = at + 8 + header_length
                self._on_frame(json.loads(buffer[at + 8 : start]), bytes(buffer[start:end]))
                at = end
            del buffer[:at]
