"""The errors of Static.

All are ``RuntimeError``, with a class and a stable ``code``: switch on the code, never on the text. The texts of
``StaticClient``, the low-level client, begin with one of five prefixes.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar, cast

__all__ = [
    "AuthError",
    "ChannelError",
    "MlsError",
    "QuotaExceededError",
    "StaticError",
    "TransportError",
]


# API keys, invite tokens, invite links and one-time tokens: as in the protocol package, `errors/redact.ts`.
_SIGN = r"""[^\s'"`]"""
_BAR = r"(?:_|%5F)"
_KEY = rf"sk{_BAR}(?:live|test){_BAR}"
_INVITE = rf"st{_BAR}inv{_BAR}"
_LINK = r"static(?::|%(?:25)?3A)(?:/|%(?:25)?2F){1,2}"
_ONE_TIME = rf"(?:(?<!\w)|(?<=%[0-9A-F]{{2}})|(?<=\\[bfnrt]))(?:pw|su){_BAR}"
_FURTHER = r"[\s,]+[\w-]{20,}"
_SECRET = re.compile(
    rf"({_KEY}(?={_SIGN}{{8,}}[\w-])|{_INVITE}|{_LINK}|{_ONE_TIME}(?={_SIGN}{{10,}}[\w-])){_SIGN}*[\w-](?:{_FURTHER})*"
    rf"|({_KEY}|{_INVITE}|{_LINK}|{_ONE_TIME})[\w-]{{0,10}}(?:{_FURTHER})+",
    re.ASCII | re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """The text with ``…`` in place of everything after the prefix of each secret in it."""
    return _SECRET.sub(r"\1\2…", text)


class StaticError(RuntimeError):
    """Base class of all errors of Static."""

    #: A stable code, such as ``channel_exists``.
    code: str
    #: The text, without the prefix.
    message: str
    #: The HTTP status for the code.
    http_status: int
    #: Whether retrying the same call unchanged can succeed.
    retryable: bool
    #: URL of the page that explains the code; None if the client has no API.
    doc_url: Optional[str]

    def __init__(self, code: str, message: str, doc_url: Optional[str] = None) -> None:
        _, status, _, retryable = CODES.get(code, _UNKNOWN)
        # A mistyped call may contain a key, token or link where a name belongs.
        shown = without_secrets(message)
        super().__init__(shown)
        self.code = code
        self.message = shown
        self.http_status = status
        self.retryable = retryable
        self.doc_url = doc_url

    def __reduce__(self) -> Tuple[Any, ...]:
        # Exceptions are copied and pickled by their arguments, which here differ from those of the constructor.
        return (_copied, (type(self), self.code, self.message, self.doc_url, self.args))

    @property
    def cause(self) -> Optional[BaseException]:
        """The underlying error, for logs."""
        return self.__cause__


class AuthError(StaticError):
    """Missing, invalid or insufficient credentials."""


class TransportError(StaticError):
    """The peer could not be reached or did not respond in time."""


class ChannelError(StaticError):
    """A problem with a channel's name, membership, invite or queue."""


class QuotaExceededError(StaticError):
    """The plan's message limit is reached."""


class MlsError(StaticError):
    """A problem with the cryptographic state of a channel."""


#: Code: class, HTTP status, prefix, retryable. A test compares it with the table of the protocol package.
CODES: Dict[str, Tuple[Type[StaticError], int, str, bool]] = {
    "auth_failed": (AuthError, 401, "auth error:", False),
    "auth_key_invalid": (AuthError, 401, "auth error:", False),
    "invalid_credentials": (AuthError, 401, "auth error:", False),
    "api_key_required": (AuthError, 403, "auth error:", False),
    "mode_mismatch": (AuthError, 403, "auth error:", False),
    "account_suspended": (AuthError, 403, "auth error:", False),
    "account_unknown": (AuthError, 403, "auth error:", False),
    "signup_closed": (AuthError, 403, "auth error:", False),
    "signup_invite_invalid": (AuthError, 403, "auth error:", False),
    "password_link_invalid": (AuthError, 403, "auth error:", False),
    "not_allowed": (AuthError, 403, "auth error:", False),
    "transport_error": (TransportError, 502, "transport error:", True),
    "connection_error": (TransportError, 502, "transport error:", True),
    "relay_changed": (TransportError, 502, "transport error:", False),
    "version_mismatch": (TransportError, 426, "transport error:", False),
    "join_timeout": (TransportError, 504, "transport error:", True),
    "listener_died": (TransportError, 500, "transport error:", False),
    "unavailable": (TransportError, 503, "transport error:", True),
    "rate_limited": (TransportError, 429, "transport error:", True),
    "cancelled": (TransportError, 408, "transport error:", True),
    "send_pending": (TransportError, 504, "transport error:", False),
    "closed": (TransportError, 409, "transport error:", False),
    "channel_error": (ChannelError, 400, "invalid channel name:", False),
    "channel_exists": (ChannelError, 409, "runtime error:", False),
    "not_found": (ChannelError, 404, "runtime error:", False),
    "removed": (ChannelError, 410, "runtime error:", False),
    "ask_timeout": (ChannelError, 504, "runtime error:", False),
    "ask_failed": (ChannelError, 502, "runtime error:", False),
    "group_full": (ChannelError, 409, "runtime error:", False),
    "too_large": (ChannelError, 413, "runtime error:", False),
    "queue_full": (ChannelError, 429, "runtime error:", True),
    "files_unavailable": (ChannelError, 503, "runtime error:", False),
    "file_incomplete": (ChannelError, 409, "runtime error:", False),
    "file_expired": (ChannelError, 410, "runtime error:", False),
    "file_changed": (ChannelError, 409, "runtime error:", False),
    "file_corrupt": (ChannelError, 422, "runtime error:", False),
    "invite_invalid": (ChannelError, 400, "runtime error:", False),
    "invite_expired": (ChannelError, 410, "runtime error:", False),
    "invite_used_up": (ChannelError, 410, "runtime error:", False),
    "invite_revoked": (ChannelError, 410, "runtime error:", False),
    "proof_required": (ChannelError, 403, "runtime error:", False),
    "identity_changed": (ChannelError, 409, "runtime error:", False),
    "relay_rolled_back": (ChannelError, 409, "runtime error:", False),
    "quota_exceeded": (QuotaExceededError, 429, "runtime error:", False),
    "mls_error": (MlsError, 500, "MLS engine error:", False),
    "decryption_failure": (MlsError, 500, "MLS engine error:", False),
    "invalid_welcome": (MlsError, 400, "MLS engine error:", False),
    "epoch_mismatch": (MlsError, 409, "MLS engine error:", True),
    "out_of_order": (MlsError, 409, "MLS engine error:", True),
    "fork_detected": (MlsError, 409, "MLS engine error:", False),
    "key_package_unavailable": (MlsError, 404, "MLS engine error:", True),
    "invalid_request": (StaticError, 400, "runtime error:", False),
    "schema_mismatch": (StaticError, 422, "runtime error:", False),
    "invalid_json": (StaticError, 400, "runtime error:", False),
    "method_not_allowed": (StaticError, 405, "runtime error:", False),
    "body_too_large": (StaticError, 413, "runtime error:", False),
    "unsupported_media_type": (StaticError, 415, "runtime error:", False),
    "email_taken": (StaticError, 409, "runtime error:", False),
    "key_limit_reached": (StaticError, 409, "runtime error:", False),
    "idempotency_conflict": (StaticError, 409, "runtime error:", False),
    "idempotency_mismatch": (StaticError, 422, "runtime error:", False),
    "internal_error": (StaticError, 500, "runtime error:", False),
    "store_locked": (StaticError, 409, "runtime error:", False),
    "store_key_wrong": (StaticError, 500, "runtime error:", False),
    "store_corrupt": (StaticError, 500, "runtime error:", False),
    "store_permissions": (StaticError, 500, "runtime error:", False),
    "store_rolled_back": (StaticError, 500, "runtime error:", False),
    "store_failed": (StaticError, 500, "runtime error:", False),
}

_UNKNOWN = CODES["internal_error"]
_CAMEL_CASE_NAME = re.compile(r"`[a-z]+(?:[A-Z][a-z]*)+`")
_CAPITAL = re.compile(r"[A-Z]")


def _copied(
    kind: Type[StaticError], code: str, message: str, doc_url: Optional[str], args: Tuple[Any, ...]
) -> StaticError:
    error = kind(code, message, doc_url)
    error.args = args
    return error


Raised = TypeVar("Raised", bound=StaticError)
Function = TypeVar("Function", bound=Callable[..., Any])


def with_prefix(error: Raised) -> Raised:
    """Puts the prefix of its code before the text of an error, as the low-level client raises it."""
    _, _, prefix, _ = CODES.get(error.code, _UNKNOWN)
    error.args = (f"{prefix} {error.message}",)
    return error


def low_level(function: Function) -> Function:
    """A function whose errors have prefixes."""

    @functools.wraps(function)
    def call(*args: Any, **fields: Any) -> Any:
        try:
            return function(*args, **fields)
        except StaticError as error:
            raise with_prefix(error)

    return cast(Function, call)


def make_error(
    code: str, message: str, api_url: Optional[str] = None, cause: Optional[BaseException] = None
) -> StaticError:
    """Creates an error of the class for the code."""
    doc_url = None if api_url is None else f"{api_url.rstrip('/')}/docs/errors#{code}"
    error = CODES.get(code, _UNKNOWN)[0](code, message, doc_url)
    error.__cause__ = cause
    return error


def error_from(told: Mapping[str, Any], api_url: Optional[str] = None) -> StaticError:
    """Converts an error from the driver."""
    cause: Optional[BaseException] = None
    if "cause" in told:
        why = told["cause"]
        cause = make_error(why["code"], why["message"], api_url) if "code" in why else RuntimeError(why["message"])
    error = make_error(told["code"], _in_python(told["message"]), api_url, cause)
    # The driver may know an API that the program did not pass.
    error.doc_url = told.get("docUrl", error.doc_url)
    return error


def _in_python(message: str) -> str:
    """Spells option names as in Python: `dataDir` becomes `data_dir`."""
    return _CAMEL_CASE_NAME.sub(lambda name: _CAPITAL.sub(lambda capital: "_" + capital[0].lower(), name[0]), message)
