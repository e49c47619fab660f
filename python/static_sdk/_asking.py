"""Requests and answers: the common parts of both interfaces."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Union

from ._connection import BaseConnection
from ._handling import reason_of
from ._values import ChannelMember, Payload, member_of
from .errors import StaticError, make_error

#: The return type of a sync ``serve`` handler: the only answer, or one answer after the other.
Answers = Union[Payload, None, Iterable[Payload]]


@dataclass(frozen=True)
class Answer:
    """An answer to a request."""

    #: Verified by signature.
    sender: ChannelMember
    message_id: str
    #: Position in the channel's log.
    index: int
    epoch: int
    #: When the relay accepted it, by the relay's clock.
    time: datetime
    #: The error if the member failed to answer: ``ask_failed``.
    error: Optional[StaticError]
    #: The code that the member sent with the error.
    error_code: Optional[str]
    _payload: bytes = field(repr=False)

    @property
    def payload(self) -> bytes:
        """The bytes of the answer. Raises ``error``, if there is one."""
        if self.error is not None:
            raise self.error
        return self._payload

    def text(self) -> str:
        """The payload as text. Raises ``invalid_request`` if it is not UTF-8."""
        return _text(self.payload, self.index)

    def json(self) -> Any:
        """The value in a payload of JSON. Raises ``invalid_json``."""
        return _json(self.payload, self.index)


class ChannelRequest:
    """A request from another member, for the handler of ``Channel.serve``."""

    def __init__(self, header: Mapping[str, Any], payload: bytes) -> None:
        self.payload = payload
        #: Verified by signature.
        self.sender: ChannelMember = member_of(header["sender"])
        self.message_id: str = header["messageId"]
        #: Position in the channel's log.
        self.index: int = header["index"]
        self.epoch: int = header["epoch"]
        #: When the relay accepted it, by the relay's clock.
        self.time: datetime = _time(header["time"])
        #: Whether this agent was asked individually. Otherwise all members were asked.
        self.is_to_me: bool = header["isToMe"]
        #: When the asker stops waiting.
        self.deadline: datetime = _time(header["deadline"])
        #: Whether it may have been served before, completely or in part.
        self.redelivered: bool = header["redelivered"]
        #: Whether the asker has cancelled the request, left, or stopped waiting.
        self.is_cancelled: bool = False

    def text(self) -> str:
        """The payload as text. Raises ``invalid_request`` if it is not UTF-8."""
        return _text(self.payload, self.index)

    def json(self) -> Any:
        """The value in a payload of JSON. Raises ``invalid_json``."""
        return _json(self.payload, self.index)


def ask_fields(to: Optional[str], timeout: Optional[float]) -> Dict[str, Any]:
    """The fields of a request for the driver."""
    fields: Dict[str, Any] = {}
    if to is not None:
        fields["to"] = to
    if timeout is not None:
        fields["timeout"] = timeout
    return fields


def answer_of(
    told: Mapping[str, Any], data: bytes, error: Callable[[Mapping[str, Any]], StaticError]
) -> Optional[Answer]:
    """Converts an answer from the driver; None at the end."""
    if told.get("done"):
        return None
    failure = told.get("error")
    return Answer(
        sender=member_of(told["sender"]),
        message_id=told["messageId"],
        index=told["index"],
        epoch=told["epoch"],
        time=_time(told["time"]),
        error=None if failure is None else error(failure),
        error_code=None if failure is None else failure["answer"]["code"],
        _payload=data,
    )


def only_answer(
    told: Mapping[str, Any], data: bytes, error: Callable[[Mapping[str, Any]], StaticError]
) -> Answer:
    """Converts the only answer to a request."""
    answer = answer_of(told, data, error)
    assert answer is not None
    return answer


def failure_of(error: BaseException) -> Dict[str, str]:
    """The driver's form of a handler's error. Only errors of Static are meant for the asker."""
    if isinstance(error, StaticError):
        return {"code": error.code, "message": error.message[:1000]}
    return {"message": reason_of(error) if isinstance(error, Exception) else "The program was interrupted."}


def warn_of_request(
    connection: BaseConnection[Any], channel: str, request: ChannelRequest, error: BaseException
) -> None:
    """Warns that the handler of a request has failed, unless its error is the answer."""
    if isinstance(error, StaticError):
        return
    sender = request.sender.agent_id[:8]
    sentence = (
        f"The handler of `serve` failed on request {request.index} from agent {sender}… in channel {channel}. "
        "The asker got `internal_error`."
    )
    connection.log.warn(sentence, error, request.payload)


def deadline_of(told: Mapping[str, Any]) -> datetime:
    """When a request times out."""
    return _time(told["deadline"])


def is_payload(value: object) -> bool:
    """Whether a handler has returned its only answer."""
    return isinstance(value, (bytes, bytearray, memoryview, str))


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def _text(payload: bytes, index: int) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        text = f"The payload of message {index} is not UTF-8 text."
        raise make_error("invalid_request", text, cause=error) from error


def _json(payload: bytes, index: int) -> Any:
    try:
        return json.loads(payload)
    except ValueError as error:
        raise make_error("invalid_json", f"The payload of message {index} is not JSON.", cause=error) from error
