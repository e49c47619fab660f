"""Context manager support for objects with a coroutine ``close()``."""

from __future__ import annotations

from types import TracebackType
from typing import Optional, Type, TypeVar

Self = TypeVar("Self", bound="Closing")


class Closing:
    """Base class: awaits ``close()`` at the end of an ``async with`` block."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()
