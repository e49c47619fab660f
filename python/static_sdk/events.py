"""Events other than messages: ``client.events()`` yields one of these classes.

Tell them apart with ``isinstance``, or by ``type``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Tuple, Type, Union

from ._values import MemberProof, proof_of
from .errors import StaticError

__all__ = [
    "Admitted",
    "ChannelFailed",
    "CommitDisputed",
    "CommitRejected",
    "CommitSkipped",
    "Confirmed",
    "JoinRefused",
    "MemberUnproven",
    "ProofChecked",
    "ProofEnding",
    "ProofLapsed",
    "Connected",
    "DecryptionFailure",
    "Disconnected",
    "Event",
    "ForkDetected",
    "Gap",
    "HandlerFailed",
    "IdentityChanged",
    "InboxFull",
    "Lagging",
    "LaggingMember",
    "MembersChanged",
    "OwnershipChanged",
    "Poison",
    "ReceiptConfirmed",
    "Rekeyed",
    "RosterLie",
    "SenderUnreadable",
    "Throttled",
    "TrustFailed",
    "UnknownVersion",
    "Waiting",
    "WelcomeRefused",
]


@dataclass(frozen=True)
class Connected:
    """A session with the relay is open."""

    type: Literal["connected"] = field(default="connected", init=False)
    #: Its transport.
    way: Literal["quic", "grpc"]


@dataclass(frozen=True)
class Disconnected:
    """The session is lost. The agent reconnects automatically."""

    type: Literal["disconnected"] = field(default="disconnected", init=False)
    error: StaticError


@dataclass(frozen=True)
class Rekeyed:
    """This agent has replaced its keys in a channel."""

    type: Literal["rekeyed"] = field(default="rekeyed", init=False)
    channel: str


@dataclass(frozen=True)
class MembersChanged:
    """A commit added or removed members of a channel."""

    type: Literal["members_changed"] = field(default="members_changed", init=False)
    channel: str
    #: The agent that committed.
    by: str
    #: Agent ids.
    added: List[str]
    #: Agent ids.
    removed: List[str]


@dataclass(frozen=True)
class Admitted:
    """A member added an agent that asked with an invite that members may use (``admit="members"``)."""

    type: Literal["admitted"] = field(default="admitted", init=False)
    channel: str
    #: The agent that was added.
    member: str
    #: The member that added it.
    by: str
    #: The id of the invite.
    invite: str
    #: Whether the invite had no uses left or was revoked. If so, the owner's agent removes the added agent.
    beyond: bool


@dataclass(frozen=True)
class OwnershipChanged:
    """A member has changed who owns a channel, or who may take it over.

    If ``standby`` is this agent and ``offered``, the owner hands the channel over to it: ``Channel.take_over``.
    """

    type: Literal["ownership_changed"] = field(default="ownership_changed", init=False)
    channel: str
    #: The agent that committed.
    by: str
    #: The agent that owns the channel now.
    owner: str
    offered: bool
    #: The agent that may take it over; None if there is none.
    standby: Optional[str] = None


@dataclass(frozen=True)
class ProofChecked:
    """A member has shown who runs it, and this agent has checked it. Not emitted again when the same is renewed."""

    type: Literal["proof_checked"] = field(default="proof_checked", init=False)
    channel: str
    #: Agent id.
    member: str
    proof: MemberProof


@dataclass(frozen=True)
class ProofLapsed:
    """A member's proof is not ``checked`` any longer. The member stays.

    If ``member`` is this agent, it could not show its own proof, and tries again after 10 minutes.
    """

    type: Literal["proof_lapsed"] = field(default="proof_lapsed", init=False)
    channel: str
    #: Agent id.
    member: str
    proof: MemberProof


@dataclass(frozen=True)
class MemberUnproven:
    """A member showed no proof that this agent demands (``require``) within 10 minutes, so this agent removes it."""

    type: Literal["member_unproven"] = field(default="member_unproven", init=False)
    channel: str
    #: Agent id.
    member: str
    #: The proof that it has shown, if any.
    proof: Optional[MemberProof] = None


@dataclass(frozen=True)
class JoinRefused:
    """This agent has not admitted an agent, which shows no proof that it accepts.

    The joiner hears only ``proof_required``.
    """

    type: Literal["join_refused"] = field(default="join_refused", init=False)
    channel: str
    #: Agent id.
    agent: str
    #: The id of the invite.
    invite: str
    reason: str


@dataclass(frozen=True)
class Confirmed:
    """The owner has sent something since this agent joined, which confirms that this is the owner's channel."""

    type: Literal["confirmed"] = field(default="confirmed", init=False)
    channel: str


@dataclass(frozen=True)
class IdentityChanged:
    """A member uses an identity that this agent knows with a different key. Compare fingerprints before you trust it."""

    type: Literal["identity_changed"] = field(default="identity_changed", init=False)
    channel: str
    identity: bytes
    #: The agent id that this agent knows.
    known: str
    #: The new one.
    now: str


@dataclass(frozen=True)
class RosterLie:
    """The relay claims something about a channel that contradicts its group. The claim is ignored."""

    type: Literal["roster_lie"] = field(default="roster_lie", init=False)
    channel: str
    detail: str


@dataclass(frozen=True)
class Gap:
    """The relay deleted entries before this agent fetched them."""

    type: Literal["gap"] = field(default="gap", init=False)
    channel: str
    #: Index of the first one.
    first: int
    #: Index of the last one.
    last: int


@dataclass(frozen=True)
class DecryptionFailure:
    """A message could not be decrypted and was skipped."""

    type: Literal["decryption_failure"] = field(default="decryption_failure", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int


@dataclass(frozen=True)
class SenderUnreadable:
    """Eight messages in a row from one sender could not be decrypted.

    Until one can be, or the group's keys change, a message from this sender is tried only if its key is at most 16
    steps ahead. Emitted once.
    """

    type: Literal["sender_unreadable"] = field(default="sender_unreadable", init=False)
    channel: str
    #: An agent id.
    sender: str


@dataclass(frozen=True)
class UnknownVersion:
    """A member sends messages in a version that this agent does not support. They are skipped. Emitted once per member.
    """

    type: Literal["unknown_version"] = field(default="unknown_version", init=False)
    channel: str
    #: An agent id.
    sender: str
    version: int


@dataclass(frozen=True)
class CommitSkipped:
    """A commit broke the rules, so every member skips it. If ``unfollowable``, only this agent cannot follow it."""

    type: Literal["commit_skipped"] = field(default="commit_skipped", init=False)
    channel: str
    #: An agent id.
    sender: str
    #: The slot of the commit, for ``Channel.reject_commit``.
    slot: int
    reason: str


@dataclass(frozen=True)
class CommitDisputed:
    """For the owner: members still send in the epoch before a commit that this agent has followed.

    Either its committer made it unreadable for them, or they only claim so; no one can prove which. They must leave and
    be added again. If you blame the committer, remove it. Emitted for the first such member, and each time their number
    has doubled.
    """

    type: Literal["commit_disputed"] = field(default="commit_disputed", init=False)
    channel: str
    #: Agent id of the committer.
    sender: str
    #: Identity of the committer.
    identity: bytes
    slot: int
    #: Agent ids of the members that cannot follow it.
    members: List[str]


@dataclass(frozen=True)
class CommitRejected:
    """The members rejected a commit. Its sender cannot commit until the owner allows it again."""

    type: Literal["commit_rejected"] = field(default="commit_rejected", init=False)
    channel: str
    #: An agent id.
    sender: str


@dataclass(frozen=True)
class ForkDetected:
    """A member reports that it has seen a different history. Sending has stopped.

    Compare your result of ``verify()`` with the member's: if they are equal, its report is wrong; if they differ, the
    relay has shown different histories.
    """

    type: Literal["fork_detected"] = field(default="fork_detected", init=False)
    channel: str
    #: Agent id of the member.
    member: str
    #: Identity of the member.
    identity: bytes
    detail: str


@dataclass(frozen=True)
class ChannelFailed:
    """The channel cannot continue on this agent. The error says what to do."""

    type: Literal["channel_failed"] = field(default="channel_failed", init=False)
    channel: str
    error: StaticError


@dataclass(frozen=True)
class Waiting:
    """A call of ``send`` has been pending for 5 s, and keeps waiting. Emitted once per wait.

    The error says what it is waiting for: a connection, quota, the relay's disk, its rate limit, or a group change. The
    wait lasts until the relay accepts a message.
    """

    type: Literal["waiting"] = field(default="waiting", init=False)
    channel: str
    error: StaticError
    #: When the wait began.
    since: datetime


@dataclass(frozen=True)
class LaggingMember:
    """A member that is behind."""

    #: Its agent id.
    agent: str
    #: The number of entries it has not fetched.
    waiting: int


@dataclass(frozen=True)
class Lagging:
    """The relay's storage for a channel is at least three quarters full, so sending is slowed down.

    When it is full, lagging members lose their oldest entries, or ``send`` fails with ``queue_full``. Emitted at most
    once a minute per channel.
    """

    type: Literal["lagging"] = field(default="lagging", init=False)
    channel: str
    #: The members furthest behind, worst first.
    members: List[LaggingMember]


@dataclass(frozen=True)
class Throttled:
    """The relay defers a change to a channel: a member, new keys, a join. It is retried automatically.

    Emitted once per commit, and each time a join is deferred.
    """

    type: Literal["throttled"] = field(default="throttled", init=False)
    channel: str
    error: StaticError
    #: Seconds until the first retry.
    wait: float


@dataclass(frozen=True)
class HandlerFailed:
    """The handler of ``Channel.handle`` failed on a message. It is called again."""

    type: Literal["handler_failed"] = field(default="handler_failed", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int
    message_id: str
    attempts: int
    #: The handler's error.
    reason: str
    #: Seconds until the next attempt.
    retry_in: float


@dataclass(frozen=True)
class Poison:
    """The handler failed on a message for the last allowed attempt, so the message was put aside: ``Channel.poison``."""

    type: Literal["poison"] = field(default="poison", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int
    message_id: str
    attempts: int
    #: The handler's last error.
    reason: str
    #: False if the limit of messages put aside is reached: the message is retried every 5 minutes.
    is_put_aside: bool


@dataclass(frozen=True)
class ReceiptConfirmed:
    """A member's receipt was verified: it has processed the log up to ``delivered``.

    If its mode is ``settled``, its application has settled everything up to ``settled``. Emitted in channels whose
    receipts the application has requested (``receipts``, ``reached``).
    """

    type: Literal["receipt"] = field(default="receipt", init=False)
    channel: str
    member: str
    #: ``settled``, ``delivered`` or ``off``.
    mode: str
    delivered: int
    settled: int


@dataclass(frozen=True)
class RequestFailed:
    """The handler of ``Channel.serve`` failed on a request. The asker gets an error as the answer."""

    type: Literal["request_failed"] = field(default="request_failed", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int
    #: The handler's error.
    reason: str


@dataclass(frozen=True)
class RequestIgnored:
    """A request was not accepted: it is malformed, or too many are waiting for this agent."""

    type: Literal["request_ignored"] = field(default="request_ignored", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int
    #: ``malformed`` or ``too_many``.
    reason: str


@dataclass(frozen=True)
class AnswerIgnored:
    """An answer to a request of this agent was ignored, for instance because another member was asked."""

    type: Literal["answer_ignored"] = field(default="answer_ignored", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int
    #: The id of the request that the answer names.
    request: str
    #: ``not_asked``, ``ended``, ``not_open``, ``repeated``, ``out_of_order``, ``too_many`` or ``malformed``.
    reason: str


@dataclass(frozen=True)
class ApprovalRequested:
    """A member asks this agent to approve an action. People decide with ``static channel decide``."""

    type: Literal["approval_requested"] = field(default="approval_requested", init=False)
    channel: str
    #: Agent id of the member that asks.
    asker: str
    #: The id of the approval.
    approval: str


@dataclass(frozen=True)
class ApprovalDecided:
    """A member has decided on an approval that this agent has asked for, or may decide on as well."""

    type: Literal["approval_decided"] = field(default="approval_decided", init=False)
    channel: str
    #: Agent id.
    member: str
    #: The id of the approval.
    approval: str
    #: ``approve`` or ``deny``.
    choice: str


@dataclass(frozen=True)
class ApprovalOver:
    """An approval that this agent has asked for has its outcome."""

    type: Literal["approval_over"] = field(default="approval_over", init=False)
    channel: str
    #: The id of the approval.
    approval: str
    #: ``approved``, ``denied`` or ``expired``.
    decision: str


@dataclass(frozen=True)
class ApprovalIgnored:
    """A request for an approval of this agent, or a decision, was ignored."""

    type: Literal["approval_ignored"] = field(default="approval_ignored", init=False)
    channel: str
    #: An agent id.
    sender: str
    index: int
    #: ``not_asker``, ``elsewhere``, ``not_asked``, ``repeated``, ``late``, ``invalid`` or ``too_many``.
    reason: str


@dataclass(frozen=True)
class InboxFull:
    """The inbox is full. No more messages are fetched until the application reads some."""

    type: Literal["inbox_full"] = field(default="inbox_full", init=False)
    channel: str


@dataclass(frozen=True)
class TrustFailed:
    """The list of trusted issuers, or what is known of their keys, cannot be read or written.

    Until that has ended, new proofs are not checked, and checked ones lapse. Tried again every minute; emitted once.
    """

    type: Literal["trust_failed"] = field(default="trust_failed", init=False)
    error: StaticError


@dataclass(frozen=True)
class ProofEnding:
    """The statement of a domain about this agent ends within a week, or has ended, and cannot be renewed here.

    The key of the domain is on another machine, or the statement is revoked. Have it signed again
    (``static domain sign``). Emitted once for each statement.
    """

    type: Literal["proof_ending"] = field(default="proof_ending", init=False)
    domain: str
    until: datetime


@dataclass(frozen=True)
class WelcomeRefused:
    """A Welcome arrived that cannot be used. `channel` is empty if the relay sent no valid name."""

    type: Literal["welcome_refused"] = field(default="welcome_refused", init=False)
    channel: str
    error: StaticError


#: Any event.
Event = Union[
    Connected,
    Disconnected,
    Rekeyed,
    MembersChanged,
    Admitted,
    OwnershipChanged,
    Confirmed,
    ProofChecked,
    ProofLapsed,
    MemberUnproven,
    JoinRefused,
    IdentityChanged,
    RosterLie,
    Gap,
    DecryptionFailure,
    SenderUnreadable,
    UnknownVersion,
    CommitSkipped,
    CommitDisputed,
    CommitRejected,
    ForkDetected,
    ChannelFailed,
    Waiting,
    Lagging,
    Throttled,
    HandlerFailed,
    Poison,
    ReceiptConfirmed,
    RequestFailed,
    RequestIgnored,
    AnswerIgnored,
    ApprovalRequested,
    ApprovalDecided,
    ApprovalOver,
    ApprovalIgnored,
    InboxFull,
    TrustFailed,
    ProofEnding,
    WelcomeRefused,
]

_CAPITAL = re.compile(r"[A-Z]")


def _class_of_type() -> Dict[str, Type[Any]]:
    classes: Tuple[Type[Any], ...] = Event.__args__  # type: ignore[attr-defined]
    return {fields(kind)[0].default: kind for kind in classes}


EVENTS: Dict[str, Type[Any]] = _class_of_type()


def event_of(told: Mapping[str, Any], error: Callable[[Mapping[str, Any]], StaticError]) -> Event:
    """Converts an event from the driver."""
    values = {name: value for name, value in told.items() if name != "type"}
    given = dict(_converted(name, value, error) for name, value in values.items())
    event: Event = EVENTS[told["type"]](**given)
    return event


def _converted(name: str, value: Any, error: Callable[[Mapping[str, Any]], StaticError]) -> Tuple[str, Any]:
    if name == "error":
        return name, error(value)
    if name == "identity":
        return name, bytes.fromhex(value)
    if name == "proof":
        return name, proof_of(value)
    if name in ("since", "until"):
        return name, datetime.fromtimestamp(value / 1000, timezone.utc)
    if name == "members":
        return name, [
            member if isinstance(member, str) else LaggingMember(member["agent"], member["waiting"]) for member in value
        ]
    if name.endswith("Ms"):
        return field_name(name), value / 1000
    return field_name(name), value


def field_name(name: str) -> str:
    """The Python name of a driver field. Durations are in seconds, so they lose their unit."""
    return _CAPITAL.sub(lambda capital: "_" + capital[0].lower(), name[:-2] if name.endswith("Ms") else name)
