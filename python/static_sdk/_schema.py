"""Schemas of payloads: what pydantic has for JSON. Recognised by its methods, so that the package needs no pydantic."""

from __future__ import annotations

import importlib
import json
from typing import Any, Callable, Protocol, Type, TypeVar, Union

from ._values import json_text
from .errors import StaticError, make_error

Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
#: Checks a payload; raises a ``ValueError`` for one that does not fit.
Check = Callable[[bytes], Any]

#: Issues in an error, and characters of one: its text and place may repeat a payload.
_MOST_ISSUES = 3
_MOST_CHARACTERS = 200


class Adapter(Protocol[Value_co]):
    """pydantic's ``TypeAdapter``."""

    def validate_json(self, data: bytes) -> Value_co:
        """The value in a JSON text."""


#: A pydantic model, any other type that pydantic knows, or a ``TypeAdapter``.
Schema = Union[Type[Value], Adapter[Value]]


class Unfit(Exception):
    """The payload of a message does not fit, so that another attempt would be in vain."""


def check_of(schema: Any) -> Check:
    """The check of a schema. Raises ``invalid_request`` if it is none."""
    for name in ("model_validate_json", "validate_json"):
        check = getattr(schema, name, None)
        if callable(check):
            return check  # type: ignore[no-any-return]
    try:
        adapter = importlib.import_module("pydantic").TypeAdapter(schema)
    except ImportError as error:
        text = f"`schema` is {schema!r}. Pass a pydantic model, or install pydantic 2 for other types."
        raise make_error("invalid_request", text, cause=error) from error
    except Exception as error:
        text = f"`schema` is {schema!r}. It must be a type that pydantic knows, or a TypeAdapter."
        raise make_error("invalid_request", text, cause=error) from error
    return adapter.validate_json  # type: ignore[no-any-return]


def fitted(check: Check, data: bytes, what: str) -> Any:
    """The checked value. ``what`` names it in the error: ``schema_mismatch``."""
    try:
        return check(data)
    except StaticError:
        raise
    except ValueError as error:
        # Without the original error, whose text repeats the payload.
        raise make_error("schema_mismatch", f"{what} does not fit the schema: {_issues(error)}.") from None


def fitted_message(check: Check, data: bytes) -> Any:
    """Like ``fitted``, for a message: raises ``Unfit``."""
    try:
        return fitted(check, data, "The payload")
    except StaticError as error:
        raise Unfit(error.message) from None


def value_text(value: Any) -> str:
    """A value as JSON. One of pydantic's writes itself."""
    dump = None if isinstance(value, type) else getattr(value, "model_dump_json", None)
    return str(dump()) if callable(dump) else json_text(value)


def _issues(error: ValueError) -> str:
    """Where and why, without the value."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return "it is not JSON" if isinstance(error, json.JSONDecodeError) else type(error).__name__
    found = errors()
    shown = [_issue(each.get("loc", ()), str(each.get("msg", ""))) for each in found[:_MOST_ISSUES]]
    more = f"; and {len(found) - _MOST_ISSUES} more" if len(found) > _MOST_ISSUES else ""
    return "; ".join(shown) + more


def _issue(place: Any, text: str) -> str:
    where = ".".join(str(step) for step in place)
    return (f"{where}: {text}" if where else text)[:_MOST_CHARACTERS]
