"""Bounds of a call and of a response before ``a2a-sdk`` processes them, which recurses into each level of them."""

from __future__ import annotations

from typing import Any, Iterable, List, NamedTuple, Optional, Tuple

#: Members whose content A2A leaves to the program.
_FREE = ("data", "metadata")


class Bounds(NamedTuple):
    """The maximum of each."""

    #: Levels of nesting, including the call or response itself.
    levels: int
    #: Entries in the lists of A2A (parts, extensions, references), in total.
    entries: float
    #: Values of any kind, including those in ``data`` and ``metadata``.
    values: float


CALL_BOUNDS = Bounds(100, 4096, 32_768)
#: A client reads each value once, so their number does not matter.
RESPONSE_BOUNDS = Bounds(100, float("inf"), float("inf"))


def excess(root: Any, bounds: Bounds) -> Optional[str]:
    """The bound that a JSON value exceeds, as the end of a sentence. Does not recurse."""
    pending: List[Tuple[Any, int, bool]] = [(root, 1, False)]
    values, entries = 1, 0
    while pending:
        value, level, is_free = pending.pop()
        if not isinstance(value, (dict, list)):
            continue
        if level > bounds.levels:
            return f"is nested more than {bounds.levels} levels deep"
        children: Iterable[Tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        if isinstance(value, list) and not is_free:
            entries += len(value)
        values += len(value)
        if entries > bounds.entries:
            return f"has more than {bounds.entries} list entries"
        if values > bounds.values:
            return f"has more than {bounds.values} values"
        pending.extend((child, level + 1, is_free or key in _FREE) for key, child in children)
    return None
