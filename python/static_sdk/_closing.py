"""Context manager support for objects with ``close()``."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, Type, TypeVar

Self = TypeVar("Self", bound="Closing")


class Closing:
    """Base class: calls ``close()`` at the end of a ``with`` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()
