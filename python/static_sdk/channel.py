"""Channels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Generic, List, Mapping, Optional, TypeVar, Union

from ._closing import Closing
from ._connection import Connection
from ._inbox import Arrival, Inbox

Item = TypeVar("Item")


@dataclass(frozen=True)
class ChannelMember:
    """A member of a channel, identified by its key."""

    #: SHA-256 of its signature key, 64 hexadecimal digits.
    agent_id: str
    #: The agent id in a readable form, to compare with what the owner of the key sees.
    fingerprint: str
    #: The name that the holder of this key chose. Not verified.
    identity: bytes


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
    #: It may have been delivered before: the program exited before it was settled.
    redelivered: bool


class Reading(Closing, Generic[Item]):
    """A blocking iterator over the messages of a channel, for one thread; other threads need their own.

    Leaving the loop settles the last item. If you keep the iterator in a variable, end it with ``close()`` or a
    ``with`` block.
    """

    def __init__(self, channel: "Channel", inbox: Inbox, item: Callable[[Arrival], Item]) -> None:
        # Keeps the channel, and so the client, alive while it is read.
        self._channel = channel
        self._inbox = inbox
        self._item = item
        self._run = inbox.run
        self._given: Optional[int] = None
        self._left = False

    def __iter__(self) -> "Reading[Item]":
        return self

    def __next__(self) -> Item:
        self._settle()
        arrival = self._inbox.take(self)
        if arrival is None:
            self._left = True
            raise StopIteration
        self._given = arrival.token
        return self._item(arrival)

    def is_over(self) -> bool:
        """Whether the iterator was closed, or its channel."""
        return self._left or self._run != self._inbox.run

    def close(self) -> None:
        """Settles the last item and ends the iterator, even for a thread that is waiting in it."""
        self._left = True
        self._settle()
        self._inbox.wake()

    def __del__(self) -> None:
        self._settle()

    def _settle(self) -> None:
        given, self._given = self._given, None
        if given is not None:
            self._inbox.settle(given)


class Channel(Closing):
    """A channel that this agent is a member of. Thread-safe: send and receive from any number of threads.

    Network failures, relay restarts and commits by other members are handled internally. Methods raise ``StaticError``,
    a ``RuntimeError`` whose ``code`` says what is wrong.
    """

    def __init__(self, client: object, connection: Connection, told: Mapping[str, Any]) -> None:
        # A client without references shuts down its driver, so keep one.
        self._client = client
        self._connection = connection
        self._on: int = told["on"]
        self._name: str = told["name"]
        self._id: str = told["id"]
        self._owner: str = told["owner"]
        self._inbox = Inbox(connection, self._on)

    @property
    def name(self) -> str:
        """``org/namespace/service``."""
        return self._name

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
        return self._id

    @property
    def owner(self) -> str:
        """The fingerprint of the agent that owns the channel."""
        return self._owner

    def send(self, payload: bytes) -> None:
        """Sends at most 262,144 bytes to all members. Returns when the relay has stored them on disk.

        If the program exits before that, they are sent at the next start. Raises ``too_large``, ``quota_exceeded``,
        ``queue_full``, ``removed``, ``fork_detected``, ``mls_error`` or ``closed``.
        """
        self._connection.call("send", as_bytes(payload, "payload"), on=self._on)

    def messages(self) -> "Reading[bytes]":
        """The payloads of the other members, from the first unsettled one on: an endless, blocking iterator.

        A payload is settled when you ask for the next one or leave the loop; until then it is delivered again after a
        restart. Several iterators share the payloads: each payload goes to one of them. Ends when the channel or the
        client is closed, or when the agent leaves the channel; raises the error if something else ended it:
        ``removed``, ``not_found``, ``mls_error``, ``listener_died``.
        """
        return Reading(self, self._inbox, _payload)

    def envelopes(self) -> "Reading[Envelope]":
        """Like ``messages``, with the verified sender and the position of each payload."""
        return Reading(self, self._inbox, envelope_of)

    def members(self) -> List[ChannelMember]:
        """The members of the channel, including this agent."""
        told, _ = self._connection.call("members", on=self._on)
        return [_member(member) for member in told]

    def add_member(self, key_package: Union[bytes, str], *, accept_new_key: bool = False) -> bytes:
        """Adds a member by a KeyPackage from an authenticated source, or by agent id, with a KeyPackage from the relay.

        Returns the Welcome, which the relay also delivers to the new member. Raises ``identity_changed`` unless
        ``accept_new_key`` (compare the fingerprint first), ``key_package_unavailable``, ``group_full`` or
        ``invalid_request``.
        """
        if isinstance(key_package, str):
            fields = {"agentId": key_package}
            data = b""
        else:
            fields = {}
            data = as_bytes(key_package, "key_package")
        _, welcome = self._connection.call("addMember", data, on=self._on, acceptNewKey=accept_new_key, **fields)
        return welcome

    def remove_member(self, agent_id: str) -> None:
        """Removes a member; only the owner may. The member cannot read any later message."""
        self._connection.call("removeMember", on=self._on, agentId=agent_id)

    def rotate(self) -> None:
        """Replaces this agent's keys in the group. Happens automatically every 24 hours and every 10,000 messages."""
        self._connection.call("rotate", on=self._on)

    def reset_roster(self) -> None:
        """Makes the relay's roster the members of the group; only the owner may.

        For when commits that everybody left out have put agents on the roster that are not in the group, or taken
        members off it.
        """
        self._connection.call("resetRoster", on=self._on)

    def leave(self) -> None:
        """Leaves the channel, even if its group is broken. The owner cannot leave, only delete the channel."""
        self._connection.call("leave", on=self._on)
        self._inbox.clear()

    def delete(self) -> None:
        """Deletes the channel for all members. Requires the owner's API key."""
        self._connection.call("delete", on=self._on)
        self._inbox.clear()

    def catch_up(self) -> None:
        """Waits until everything on the relay is processed.

        Until then ``members`` and ``verify`` may be out of date. You do not need to read messages for this. Without a
        connection it waits for one. Raises ``queue_full`` if too many messages are unread to accept more, or the error
        that ended the channel.
        """
        self._connection.call("catchUp", on=self._on)

    def verify(self) -> str:
        """Twelve words that match for all members who have seen the same history.

        Compare them out of band after ``catch_up``, while no messages are being sent: they differ if the relay has
        shown the members different histories.
        """
        words, _ = self._connection.call("verify", on=self._on)
        return str(words)

    def accept_fork(self) -> None:
        """Continues after ``fork_detected``, although a member has seen another history. Compare ``verify`` first."""
        self._connection.call("acceptFork", on=self._on)

    def close(self) -> None:
        """Ends the iterators of this channel. The channel stays in the client and can be read again."""
        self._inbox.stop()

    def __repr__(self) -> str:
        return f"<Channel {self._name}>"


def as_bytes(value: object, what: str) -> bytes:
    """Converts bytes-like values to bytes. Raises ``TypeError`` for anything else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes, not {type(value).__name__}")


def envelope_of(arrival: Arrival) -> Envelope:
    """Converts an arrival to an envelope."""
    header = arrival.header
    return Envelope(
        payload=arrival.payload,
        sender=_member(header["sender"]),
        message_id=header["messageId"],
        index=header["index"],
        epoch=header["epoch"],
        time=datetime.fromtimestamp(header["time"] / 1000, timezone.utc),
        redelivered=header["redelivered"],
    )


def _payload(arrival: Arrival) -> bytes:
    return arrival.payload


def _member(told: Mapping[str, Any]) -> ChannelMember:
    return ChannelMember(told["agentId"], told["fingerprint"], bytes.fromhex(told["identity"]))
