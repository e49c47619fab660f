"""The content of a request and its answers: a JSON-RPC call of A2A with its service parameters, and JSON-RPC responses."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, NamedTuple, NoReturn

from a2a.utils.errors import InvalidAgentResponseError, InvalidParamsError

from ._limits import CALL_BOUNDS, RESPONSE_BOUNDS, excess

#: The identifier of the binding, as in ``protocol_binding`` of an Agent Card.
A2A_BINDING = "urn:static:a2a:channel:1"

# Bounds on data from another member.
_MOST_PARAMETERS = 64
_MOST_PARAMETER_CHARACTERS = 8192

#: The only method without a result.
_DELETE_METHOD = "DeleteTaskPushNotificationConfig"


class NotJson(ValueError):
    """The payload is not JSON."""


class Envelope(NamedTuple):
    """A call, with its service parameters by lower-case name."""

    parameters: Dict[str, str]
    call: Dict[str, Any]


def encode_envelope(parameters: Mapping[str, str], call: Any) -> str:
    """Encodes a call."""
    return json.dumps({"parameters": dict(parameters), "call": call}, separators=(",", ":"))


def decode_envelope(payload: bytes) -> Envelope:
    """Decodes a call. Raises ``NotJson``, and ``InvalidParamsError`` if it has another form, or exceeds a bound."""
    value = _parsed(payload)
    parameters = value.get("parameters") if isinstance(value, dict) else None
    call = value.get("call") if isinstance(value, dict) else None
    if not isinstance(parameters, dict) or not isinstance(call, dict) or len(parameters) > _MOST_PARAMETERS:
        raise _malformed()
    lower: Dict[str, str] = {}
    for name, text in parameters.items():
        if not isinstance(text, str) or len(name) + len(text) > _MOST_PARAMETER_CHARACTERS:
            raise _malformed()
        lower[name.lower()] = text
    reason = excess(call, CALL_BOUNDS)
    if reason is not None:
        raise InvalidParamsError(f"The call {reason}.")
    return Envelope(lower, call)


def decode_response(payload: bytes, call: Mapping[str, Any]) -> Dict[str, Any]:
    """Decodes a response. Raises ``InvalidAgentResponseError`` if it is not one to this call, or exceeds a bound."""
    try:
        value = _parsed(payload)
    except NotJson:
        _invalid("is not JSON")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        _invalid("is not a JSON-RPC 2.0 response")
    reason = excess(value, RESPONSE_BOUNDS)
    if reason is not None:
        _invalid(reason)
    if "error" in value:
        if not _is_error(value["error"]) or "result" in value:
            _invalid("has no valid error")
        # A server that could not read the call does not know its id.
        if value.get("id") not in (call["id"], None):
            _invalid("has the id of another call")
        return value
    if value.get("id") != call["id"]:
        _invalid("has the id of another call")
    result = value.get("result")
    is_deleted = "result" in value and result is None and call["method"] == _DELETE_METHOD
    if not isinstance(result, dict) and not is_deleted:
        _invalid("has no result")
    return value


def _parsed(payload: bytes) -> Any:
    try:
        return json.loads(payload.decode("utf-8"), parse_constant=_refused)
    except RecursionError:
        # The parser recurses into each level, and has its own limit.
        raise _malformed() from None
    except ValueError as error:
        raise NotJson("The payload is not JSON.") from error


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON.")


def _is_error(value: Any) -> bool:
    if not isinstance(value, dict) or isinstance(value.get("code"), bool):
        return False
    return isinstance(value.get("code"), int) and isinstance(value.get("message"), str)


def _malformed() -> InvalidParamsError:
    return InvalidParamsError("Invalid JSON-RPC Request.")


def _invalid(reason: str) -> NoReturn:
    raise InvalidAgentResponseError(f"The agent's response {reason}.")
