"""Members, receipts and messages, as the application gets them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Dict, List, Literal, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, TypeVar, Union

from .errors import make_error

if TYPE_CHECKING:
    from .files import ReceivedFile

#: The types that can be sent.
Payload = Union[bytes, bytearray, memoryview, str]


Member = TypeVar("Member", bound="ChannelMember")


class Settling(Protocol):
    """Whatever settles payloads by their tokens."""

    def settle(self, token: int) -> None:
        """Marks a payload as processed."""


class Settlement:
    """Settles one payload, once."""

    __slots__ = ("inbox", "_token", "is_settled")

    def __init__(self, inbox: Settling, token: int) -> None:
        #: Where it came from, with the connection.
        self.inbox = inbox
        self._token = token
        self.is_settled = False

    def settle(self) -> None:
        if not self.is_settled:
            self.is_settled = True
            self.inbox.settle(self._token)


class Arrival(NamedTuple):
    """A payload and its metadata from the driver."""

    token: int
    header: Mapping[str, Any]
    payload: bytes
    settlement: Settlement


@dataclass(frozen=True)
class MemberProof:
    """The one who runs a member, as far as it has shown that and this agent has checked it."""

    #: ``checked``: an issuer that this agent trusts has vouched for the member's key. ``lapsed``: one had. ``unchecked``:
    #: this agent trusts no such issuer, or does not have its keys now. ``invalid``: nothing an honest agent would show.
    state: Literal["checked", "lapsed", "unchecked", "invalid"]
    #: It in words for people and language models, made by this agent.
    shown: str
    #: Of a checked one: ``domain``, ``github``, ``oidc`` or ``spiffe``.
    kind: Optional[str] = None
    #: Of a checked one: the domain, the repository, the issuer or the trust domain.
    name: Optional[str] = None
    #: Of a checked one: what the issuer calls the agent.
    subject: Optional[str] = None
    #: When a checked one lapses, unless the member shows it again.
    until: Optional[datetime] = None
    #: Of others: why it is not checked.
    reason: Optional[str] = None
    #: Of others: the issuer that it claims, which nothing verifies.
    claimed: Optional[str] = None


@dataclass(frozen=True)
class ChannelMember:
    """A member of a channel, identified by its key."""

    #: SHA-256 of its signature key, 64 hexadecimal digits.
    agent_id: str
    #: The agent id in a readable form, to compare with the one that the owner of the key sees.
    fingerprint: str
    #: The name that the holder of this key chose. Not verified.
    identity: bytes
    #: Who runs it; None if it has shown nothing.
    proof: Optional[MemberProof] = field(default=None, init=False)


@dataclass(frozen=True)
class ListedMember(ChannelMember):
    """A member in the list of ``Channel.members``."""

    #: Whether the owner vouches for it (``Channel.vouch``). Only the owner knows; None for other agents.
    vouched: Optional[bool]


@dataclass(frozen=True)
class Ownership:
    """Who owns a channel, and who may take it over."""

    #: The fingerprint of the owner.
    owner: str
    #: The agent id of the member that may take it over (``Channel.set_standby``); None if there is none.
    standby: Optional[str]
    #: Whether the owner wants it to (``Channel.transfer``).
    offered: bool


@dataclass(frozen=True)
class SentMessage:
    """The id and position of a sent message."""

    message_id: str
    #: Position in the channel's log, as reported by the relay.
    index: int


@dataclass(frozen=True)
class SentFile(SentMessage):
    """The id and position of the message that names a file, and the id of the file."""

    file_id: str


@dataclass(frozen=True)
class FileFacts:
    """What a file's sender says about it, and its message."""

    #: 32 hexadecimal digits.
    id: str
    #: As its sender has named it, unchecked: it may be a path, or contain anything. See ``safe_name``.
    name: str
    #: A name for it in a directory of this machine, as close to ``name`` as is safe.
    safe_name: str
    #: The media type that its sender has given it, unchecked; empty if none.
    type: str
    #: In bytes.
    size: int
    #: Verified by signature.
    sender: ChannelMember
    message_id: str
    #: Position of its message in the channel's log.
    index: int
    #: When the relay accepted its message, by the relay's clock.
    time: datetime


@dataclass(frozen=True)
class MemberReceipt(ChannelMember):
    """How far a member has processed the channel, as signed by it. Numbers are positions in the channel's log."""

    #: The level the member reports: ``settled``, only ``delivered``, ``off`` for nothing, or ``unknown`` before its
    #: first receipt.
    mode: str
    #: It has received everything after ``since`` and up to here.
    delivered: int
    #: Its application has settled everything after ``since`` and ``aside`` and up to here, if it reports that.
    settled: int
    #: The entry that added it, or the last entry it missed.
    since: int
    #: The last message it put aside because its handler failed too often; 0: none.
    aside: int
    #: When this agent received the receipt; None if there is none.
    at: Optional[datetime]


@dataclass(frozen=True)
class Unreached:
    """A member that is not waited for."""

    agent_id: str
    #: It ``left`` or was ``removed``, ``missed`` the message, put it or a later one ``aside``, has receipts (of this
    #: kind) ``off``, or was ``not_member`` when it was sent.
    reason: str


@dataclass(frozen=True)
class Reached:
    """The members that have a message, and those not waited for."""

    #: The agent ids of the members that have signed that they have it.
    reached: List[str]
    unreached: List[Unreached]


@dataclass(frozen=True)
class Envelope:
    """A payload with its metadata."""

    payload: bytes
    #: Verified by signature.
    sender: ChannelMember
    message_id: str
    #: Position in the channel's log.
    index: int
    epoch: int
    #: When the relay accepted it, by the relay's clock.
    time: datetime
    #: It may have been delivered before without being settled. After a crash, this is also true of up to 256 messages that
    #: the program has never seen; false means that it was not delivered.
    redelivered: bool
    _settlement: Settlement = field(repr=False, compare=False)
    #: The file that the message sends; None for other messages. The payload is the text beside it.
    file: "Optional[ReceivedFile]" = None

    def settle(self) -> None:
        """Settles the message, so that it is not delivered again. Asking for the next one also settles it."""
        self._settlement.settle()

    def text(self) -> str:
        """The payload as text. Raises ``invalid_request`` if it is not UTF-8."""
        try:
            return self.payload.decode()
        except UnicodeDecodeError as error:
            raise make_error(
                "invalid_request", f"The payload of message {self.index} is not UTF-8 text.", cause=error
            ) from error

    def json(self) -> Any:
        """The value in a payload of JSON, as ``send_json`` sends it. Raises ``invalid_json``."""
        try:
            return json.loads(self.payload)
        except ValueError as error:
            raise make_error(
                "invalid_json", f"The payload of message {self.index} is not JSON.", cause=error
            ) from error


@dataclass(frozen=True)
class PoisonMessage:
    """A message that was put aside because a handler failed on it too often."""

    payload: bytes
    sender: ChannelMember
    message_id: str
    index: int
    epoch: int
    time: datetime
    #: The number of attempts.
    attempts: int
    #: The handler's last error.
    reason: str
    put_aside_at: datetime


@dataclass(frozen=True)
class IssuedInvite:
    """An invite as its issuer sees it. Invites that have ended are deleted after a while."""

    #: Identifies the invite without revealing it: no one can join with the id alone.
    id: str
    #: ``owner``: only this agent admits joiners. ``members``: any member with an account does.
    admit: str
    #: ``open``, ``used_up``, ``expired`` or ``revoked``.
    state: str
    uses: int
    max_uses: int
    expires_at: datetime


def as_bytes(value: object, what: str) -> bytes:
    """Converts bytes-like values to bytes. Raises ``TypeError`` for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes, not {type(value).__name__}")


def limit(timeout: Optional[float]) -> Mapping[str, float]:
    """The field for a timeout, if there is one."""
    return {} if timeout is None else {"timeout": timeout}


def payload_bytes(value: object) -> bytes:
    """Converts a payload to bytes: bytes-like values exactly, a string as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"payload must be bytes or str, not {type(value).__name__}; use send_json for other values")


def envelope_fields(arrival: Arrival) -> Mapping[str, Any]:
    """The fields of an envelope, without its file."""
    header = arrival.header
    return {
        "payload": arrival.payload,
        "sender": member_of(header["sender"]),
        "message_id": header["messageId"],
        "index": header["index"],
        "epoch": header["epoch"],
        "time": time_of(header["time"]),
        "redelivered": header["redelivered"],
        "_settlement": arrival.settlement,
    }


def file_fields(told: Mapping[str, Any], message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a file, and of its message."""
    return {
        "id": told["id"],
        "name": told["name"],
        "safe_name": told["safeName"],
        "type": told["type"],
        "size": told["size"],
        "sender": member_of(message["sender"]),
        "message_id": message["messageId"],
        "index": message["index"],
        "time": time_of(message["time"]),
    }


def sent_file_of(told: Mapping[str, Any]) -> "SentFile":
    return SentFile(told["messageId"], told["index"], told["fileId"])


def about_file(
    path: object, name: Optional[str], type: Optional[str], text: Optional[str]
) -> Mapping[str, str]:
    """The fields for a file to send."""
    given = {"name": name, "type": type, "text": text}
    return {"path": absolute(path), **{key: value for key, value in given.items() if value is not None}}


def absolute(path: object) -> str:
    """A path for the driver, which has another current directory. A slash at the end is kept: it names a directory."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be str or os.PathLike, not {type_name(path)}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("path must be text, not bytes")
    if text == "":
        raise make_error("invalid_request", "`path` must be a non-empty string.")
    return os.path.join(os.path.abspath(text), "") if text.endswith(("/", os.sep)) else os.path.abspath(text)


def type_name(value: object) -> str:
    return type(value).__name__


def payload_of(arrival: Arrival) -> bytes:
    return arrival.payload


def time_of(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def member_of(told: Mapping[str, Any]) -> ChannelMember:
    return _proven(ChannelMember(told["agentId"], told["fingerprint"], bytes.fromhex(told["identity"])), told)


def proof_of(told: Mapping[str, Any]) -> MemberProof:
    until = told.get("until")
    return MemberProof(**{**told, "until": None if until is None else time_of(until)})


def _proven(member: Member, told: Mapping[str, Any]) -> Member:
    if told.get("proof") is not None:
        # The dataclass is frozen for everyone else.
        object.__setattr__(member, "proof", proof_of(told["proof"]))
    return member


def ownership_of(told: Mapping[str, Any]) -> Ownership:
    standby = told["standby"] or {"agentId": None, "offered": False}
    return Ownership(told["owner"], standby["agentId"], standby["offered"])


def listed_member_of(told: Mapping[str, Any]) -> ListedMember:
    member = ListedMember(told["agentId"], told["fingerprint"], bytes.fromhex(told["identity"]), told["vouched"])
    return _proven(member, told)


def receipt_of(told: Mapping[str, Any]) -> MemberReceipt:
    """Converts a receipt."""
    return MemberReceipt(
        agent_id=told["agentId"],
        fingerprint=told["fingerprint"],
        identity=bytes.fromhex(told["identity"]),
        mode=told["mode"],
        delivered=told["delivered"],
        settled=told["settled"],
        since=told["since"],
        aside=told["aside"],
        at=None if told["at"] is None else time_of(told["at"]),
    )


def reached_fields(sent: SentMessage, level: str, by: Optional[Sequence[str]]) -> Mapping[str, Any]:
    """The fields of a call that waits for receipts."""
    named = {} if by is None else {"by": list(by)}
    return {"messageId": sent.message_id, "index": sent.index, "level": level, **named}


def reached_of(told: Mapping[str, Any]) -> Reached:
    """Converts the result of waiting for receipts."""
    return Reached(
        reached=list(told["reached"]),
        unreached=[Unreached(each["agentId"], each["reason"]) for each in told["unreached"]],
    )


def poison_of(told: Sequence[Mapping[str, Any]], data: bytes) -> List[PoisonMessage]:
    """Converts messages that were put aside."""
    messages = []
    at = 0
    for fields in told:
        end = at + fields["bytes"]
        messages.append(
            PoisonMessage(
                payload=data[at:end],
                sender=member_of(fields["sender"]),
                message_id=fields["messageId"],
                index=fields["index"],
                epoch=fields["epoch"],
                time=time_of(fields["time"]),
                attempts=fields["attempts"],
                reason=fields["reason"],
                put_aside_at=time_of(fields["putAsideAt"]),
            )
        )
        at = end
    return messages


def poison_place(messages: Sequence[PoisonMessage]) -> Mapping[str, Any]:
    """The position of the last of these messages. The driver lists the messages after it."""
    if not messages:
        return {"index": 0, "messageId": ""}
    return {"index": messages[-1].index, "messageId": messages[-1].message_id}


def invite_of(told: Mapping[str, Any]) -> IssuedInvite:
    """Converts an invite."""
    return IssuedInvite(
        id=told["id"],
        admit=told["admit"],
        state=told["state"],
        uses=told["uses"],
        max_uses=told["maxUses"],
        expires_at=datetime.fromtimestamp(told["expiresAt"], timezone.utc),
    )


def members_fields(members: Sequence[Union[bytes, str]]) -> Tuple[Dict[str, Any], bytes]:
    """The fields and the data of a call that adds members: agent ids, or the position of each KeyPackage in the data.
    """
    named: List[Any] = []
    data = b""
    for member in members:
        if isinstance(member, str):
            named.append(member)
        else:
            start = len(data)
            data += as_bytes(member, "key_package")
            named.append([start, len(data)])
    return {"members": named}, data


def welcomes_of(lengths: Sequence[int], data: bytes) -> List[bytes]:
    """Splits the Welcomes of an answer."""
    welcomes = []
    at = 0
    for length in lengths:
        welcomes.append(data[at : at + length])
        at += length
    return welcomes


def json_text(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def token_text(token: object) -> Optional[str]:
    """The token, or None if it is not a string: the driver then refuses it."""
    return token if isinstance(token, str) else None
