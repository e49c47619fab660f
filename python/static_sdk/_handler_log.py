"""Warnings about handlers that fail: the driver knows their errors only as texts, so the program writes these."""

from __future__ import annotations

import logging
import re
import threading
import time
import traceback
import weakref
from typing import Any, List, Literal, Optional, Set, Union

from .errors import make_error, without_secrets

#: What a client can be given.
Logger = Union[logging.Logger, "logging.LoggerAdapter[Any]"]

_WINDOW_SECONDS = 60
#: Warnings in one window: a sender can make handlers fail as often as it likes.
_MOST = 30
_MOST_MESSAGE = 1000
_MOST_FRAMES = 20
_MOST_CAUSES = 3
#: The shortest excerpt of a payload that is recognised.
_EXCERPT = 8
#: Characters that change what a terminal or a reader of a log sees.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


class HandlerLog:
    """The log of one client."""

    def __init__(self, logger: Union[Logger, Literal[False], None]) -> None:
        if logger is not None and logger is not False and not callable(getattr(logger, "warning", None)):
            text = f"`logger` is {logger!r}. It must be a logger of `logging`, or False."
            raise make_error("invalid_request", text)
        self._logger = logger
        #: The iterators over events that the program reads.
        self._readers: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._lock = threading.Lock()
        self._window_end = 0.0
        self._written = 0
        self._skipped = 0

    def begin_reading(self, reader: object) -> None:
        """The program reads events with this iterator, until it ends or is garbage-collected."""
        self._readers.add(reader)

    def end_reading(self, reader: object) -> None:
        self._readers.discard(reader)

    def warn(self, sentence: str, error: BaseException, payload: bytes) -> None:
        """Warns about a handler that raised an error for a payload."""
        if self._logger is False or (self._logger is None and len(self._readers) > 0):
            return
        with self._lock:
            now = time.monotonic()
            if now >= self._window_end:
                self._window_end = now + _WINDOW_SECONDS
                self._written = 0
            if self._written >= _MOST:
                self._skipped += 1
                return
            self._written += 1
            skipped, self._skipped = self._skipped, 0
        before = f" {skipped} failures before it were not shown." if skipped else ""
        logger = logging.getLogger("static_sdk") if self._logger is None else self._logger
        try:
            logger.warning("%s%s\n%s", sentence, before, error_text(error, payload))
        except Exception:
            # A broken logger must not stop the handling of messages.
            pass


def error_text(error: BaseException, payload: bytes) -> str:
    """An error as a log may show it: type, message and traceback, without secrets and without the payload.

    Errors often quote the value that they are about, so what a message shares with the payload is left out.
    """
    body = payload.decode("utf-8", "replace")
    lines = [frame.rstrip("\n") for frame in traceback.format_tb(error.__traceback__)[-_MOST_FRAMES:]]
    lines.append(_head(error, body))
    seen: Set[int] = {id(error)}
    cause = _cause(error)
    while cause is not None and id(cause) not in seen and len(seen) <= _MOST_CAUSES:
        seen.add(id(cause))
        lines.append(f"caused by {_head(cause, body)}")
        cause = _cause(cause)
    return without_secrets("\n".join(lines))


def _cause(error: BaseException) -> Optional[BaseException]:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _head(error: BaseException, body: str) -> str:
    """Type and message, on one line."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:
        # Converting it to text failed.
        return name
    shown = _UNSEEN.sub(" ", _without_excerpts(message[:_MOST_MESSAGE], body))
    return f"{name}: {shown}" if shown else name


def _without_excerpts(text: str, body: str) -> str:
    """The text with ``…`` for everything that it shares with the payload."""
    if not body:
        return text
    if len(body) < _EXCERPT:
        return re.sub(rf"(?<!\w){re.escape(body)}(?!\w)", "…", text)
    quoted = bytearray(len(text))
    for at in range(len(text) - _EXCERPT + 1):
        if text[at : at + _EXCERPT] in body:
            quoted[at : at + _EXCERPT] = b"\x01" * _EXCERPT
    shown: List[str] = []
    for at, sign in enumerate(text):
        if not quoted[at]:
            shown.append(sign)
        elif at == 0 or not quoted[at - 1]:
            shown.append("…")
    return "".join(shown)
