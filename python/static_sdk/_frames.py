"""Frames between the program and the driver.

A frame is the length of the rest (4 bytes, big endian), the length of the header (4 bytes), the header as JSON, and raw
bytes.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, Dict, Mapping

#: The longest frame that the driver accepts.
MAX_FRAME_BYTES = 1024 * 1024
#: More than any answer needs; a longer one means that the two sides are out of sync.
MAX_ANSWER_BYTES = 16 * 1024 * 1024

_LENGTHS = struct.Struct(">II")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def encode_frame(header: Mapping[str, Any], data: bytes = b"") -> bytes:
    """Encodes a frame."""
    text = _encode(header).encode("utf-8")
    return _LENGTHS.pack(4 + len(text) + len(data), len(text)) + text + data


class FrameReader:
    """Splits the bytes from the driver into frames."""

    def __init__(self, on_frame: Callable[[Dict[str, Any], bytes], None]) -> None:
        self._on_frame = on_frame
        self._buffer = bytearray()

    def push(self, chunk: bytes) -> None:
        """Passes on the frames that a chunk completes. Raises an exception for anything that is not a frame."""
        buffer = self._buffer
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
