"""A channel as the application uses it."""

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
    """Somebody in a channel, known by its key."""

    #: SHA-256 of its signature key, 64 hexadecimal digits.
    agent_id: str
    #: The same for people, to compare with what its holder sees.
    fingerprint: str
    #: What this key calls itself: nothing more than that.
    identity: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload and what is known of it."""

    payload: bytes
    #: Verified by its signature.
    sender: ChannelMember
    message_id: str
    #: Its place in the channel's log.
    index: int
    epoch: int
    #: When the relay took it, by the relay's clock.
    time: datetime
    #: It may have been given before: the program ended before it had settled it.
    redelivered: bool


class Reading(Closing, Generic[Item]):
    """A blocking iterator over what comes in a channel, for one thread; others have their own.

    Leaving the loop settles the last item. An iterator that is kept in a variable is left by ``close()`` or by the end
    of a ``with`` block.
    """

    def __init__(self, channel: "Channel", inbox: Inbox, item: Callable[[Arrival], Item]) -> None:
        # Keeps the channel, and so the client, while it is read.
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
        """Whether it was left, or the channel closed."""
        return self._left or self._run != self._inbox.run

    def close(self) -> None:
        """Settles the last item and ends the iterator, also for a thread that waits in it."""
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
    """A channel that this agent is in. Send and receive at the same time, from any number of threads.

    A lost network, a restarted relay and commits of others are handled inside. Every method raises a ``StaticError``,
    which is a ``RuntimeError``; its ``code`` says what is wrong.
    """

    def __init__(self, client: object, connection: Connection, told: Mapping[str, Any]) -> None:
        # A client that nobody holds ends its driver.
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
        """Sends at most 262,144 bytes to all members. Returns when the relay has them on disk.

        If the program ends before, they go out at the next start. Raises ``too_large``, ``quota_exceeded``,
        ``queue_full``, ``removed``, ``fork_detected``, ``mls_error`` or ``closed``.
        """
        self._connection.call("send", as_bytes(payload, "payload"), on=self._on)

    def messages(self) -> "Reading[bytes]":
        """The payloads of the others, from the first that is not settled, for ever: a blocking iterator.

        A payload is settled when the next one is asked for or the loop is left; until then it is given again after a
        restart. Several iterators share the payloads: each goes to one. Ends when the channel or the client is closed or
        the channel left; raises what else has ended it: ``removed``, ``not_found``, ``mls_error``, ``listener_died``.
        """
        return Reading(self, self._inbox, _payload)

    def envelopes(self) -> "Reading[Envelope]":
        """As ``messages``, with the verified sender and the place of each payload."""
        return Reading(self, self._inbox, envelope_of)

    def members(self) -> List[ChannelMember]:
        """Who is in the channel, this agent included."""
        told, _ = self._connection.call("members", on=self._on)
        return [_member(member) for member in told]

    def add_member(self, key_package: Union[bytes, str], *, accept_new_key: bool = False) -> bytes:
        """Adds a member by a KeyPackage that came by an authentic way, or by agent id, with one that the relay holds.

        Returns the Welcome, which is delivered to it as well. Raises ``identity_changed`` unless ``accept_new_key``
        (compare the fingerprint first), ``key_package_unavailable``, ``group_full`` or ``invalid_request``.
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
        """Removes a member; only the owner may. From the next message on it can read nothing."""
        self._connection.call("removeMember", on=self._on, agentId=agent_id)

    def rotate(self) -> None:
        """Replaces this agent's keys in the group. It happens by itself every 24 hours and 10,000 messages."""
        self._connection.call("rotate", on=self._on)

    def reset_roster(self) -> None:
        """Makes the relay's roster the members of the group; only the owner may.

        For when commits that everybody left out have put agents on the roster that are not in the group, or taken
        members off it.
        """
        self._connection.call("resetRoster", on=self._on)

    def leave(self) -> None:
        """Leaves the channel; works with a broken group, too. The owner cannot leave: it deletes the channel."""
        self._connection.call("leave", on=self._on)
        self._inbox.clear()

    def delete(self) -> None:
        """Deletes the channel for everybody. Needs the owner's API key."""
        self._connection.call("delete", on=self._on)
        self._inbox.clear()

    def catch_up(self) -> None:
        """Returns when everything is processed that the relay has.

        Until then ``members`` and ``verify`` may tell of the time before. Messages need not be read for it. Without a
        connection it waits for one. Raises ``queue_full`` when so much is unread that nothing more is taken, or what
        ended the channel.
        """
        self._connection.call("catchUp", on=self._on)

    def verify(self) -> str:
        """Twelve words that are the same for all members who have seen the same.

        Compare them by another way while nobody sends, after ``catch_up``: they differ if the relay has shown you
        different things.
        """
        words, _ = self._connection.call("verify", on=self._on)
        return str(words)

    def accept_fork(self) -> None:
        """Goes on after ``fork_detected``, although a member has seen another history. Compare ``verify`` first."""
        self._connection.call("acceptFork", on=self._on)

    def close(self) -> None:
        """Ends the iterators of this channel. It stays in the client, and can be read again."""
        self._inbox.stop()

    def __repr__(self) -> str:
        return f"<Channel {self._name}>"


def as_bytes(value: object, what: str) -> bytes:
    """Bytes as they are; anything else is a mistake in the program."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes, not {type(value).__name__}")


def envelope_of(arrival: Arrival) -> Envelope:
    """A payload with what is known of it."""
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
