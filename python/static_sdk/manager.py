"""Channels by name, with invites: the simplest way to use an agent."""

from __future__ import annotations

import threading
from typing import Dict, List, Literal, Optional

from ._closing import Closing
from ._connection import Connection
from ._configured import Configured
from ._options import Request
from ._values import Arrival, Envelope, IssuedInvite, Payload, envelope_of, invite_of, limit, payload_bytes, token_text
from .channel import Channel
from .client import StaticClient
from .errors import StaticError

MOST_AT_ONCE = 100


class _ManagedClient(StaticClient):
    """The client of a manager, which also answers join requests."""

    _is_manager = True
    _is_low_level = False

    def __init__(self, request: Request) -> None:
        self._begin(request)


class _Receiver:
    """The reader of ``receive``: never ends, but raises if the manager has died."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_over(self) -> bool:
        self._connection.check_manager()
        return False


class StaticChannelManager(Configured, Closing):
    """Creates, invites, joins, sends and receives by channel name.

    While it runs with an API key it admits agents that join with its invites. It takes the arguments of
    ``StaticClient`` and raises the same errors. Methods raise ``StaticError``: switch on its ``code``.
    """

    def _begin(self, request: Request) -> None:
        self._client = _ManagedClient(request)
        self._connection = self._client._connection
        self._receiver = _Receiver(self._connection)
        self._lock = threading.Lock()
        self._opened: Dict[str, Channel] = {}
        #: The result of the last call, by channel: the next call settles it.
        self._given: Dict[Channel, List[Arrival]] = {}

    @property
    def client(self) -> StaticClient:
        """The underlying client, for everything else."""
        return self._client

    @property
    def died(self) -> Optional[StaticError]:
        """None, or ``listener_died`` if join requests are no longer answered: then close it and create a new one."""
        return self._connection.death

    def create(self, name: str) -> Channel:
        """Creates a channel, or opens it if this agent already owns it. Like ``StaticClient.create_channel``."""
        return self._client.create_channel(name)

    def invite(
        self, name: str, max_uses: int = 1, ttl: float = 3600, admit: Literal["owner", "members"] = "owner"
    ) -> str:
        """Creates a token with which ``max_uses`` agents can join a channel that this agent owns, for ``ttl`` seconds.

        The token is a secret: anyone who gets it first can use it. Send it so that only the invited can read it. With
        ``admit="members"``, any member with an account admits agents, even while this agent is offline; they see
        ``confirmed`` on their channel once it has been online again. Raises ``not_found``, ``not_allowed`` if this
        agent does not own the channel, ``api_key_required``, or ``invalid_request``.
        """
        return str(self._connection.call("invite", name=name, maxUses=max_uses, ttl=ttl, admit=admit)[0])

    def invite_link(
        self,
        name: str,
        max_uses: int = 1,
        ttl: float = 3600,
        endpoint: Optional[str] = None,
        admit: Literal["owner", "members"] = "owner",
    ) -> str:
        """Like ``invite``, but returns a link for agents on other machines, with the relay's address and CA.

        ``endpoint`` is the address of the relay for the invitee, ``quic://host:4433`` or ``https://host:5000``, or
        several separated by commas, if it differs from the one this agent uses. A link is as secret as its token.
        """
        address = {} if endpoint is None else {"endpoint": endpoint}
        return str(self._connection.call("inviteLink", name=name, maxUses=max_uses, ttl=ttl, admit=admit, **address)[0])

    def invites(self, name: str) -> List[IssuedInvite]:
        """The invites to a channel that this agent has created, the next to expire first. Raises ``not_found``."""
        return [invite_of(told) for told in self._connection.call("invites", name=name)[0]]

    def revoke_invite(self, token: str) -> None:
        """Revokes an invite, given its token or its id. Members that joined with it stay.

        Raises ``invite_invalid`` if this agent did not create it.
        """
        self._connection.call("revokeInvite", token=token_text(token))

    def join_with_token(self, name: str, token: str, timeout: float = 60) -> Channel:
        """Joins with a token; returns when the owner has answered. After a timeout, retry with the same token.

        Raises ``join_timeout``, ``invite_invalid``, ``invite_expired``, ``invite_used_up``, ``invite_revoked``,
        ``identity_changed``, ``group_full``, ``invalid_welcome`` or ``channel_exists``.
        """
        return self._client._channel(
            self._connection.call("joinWithToken", name=name, token=token_text(token), timeout=timeout)[0]
        )

    def join_with_link(self, link: str, timeout: float = 60) -> Channel:
        """Joins with an invite link to the relay of this agent. Connect an agent without a relay with ``link=`` first.

        Raises the errors of ``join_with_token``, with ``invite_invalid`` also for a damaged link, one from a newer
        version, or one for another relay.
        """
        return self._client._channel(self._connection.call("joinWithLink", link=link, timeout=timeout)[0])

    def send(self, name: str, payload: Payload, *, timeout: Optional[float] = None) -> None:
        """Sends bytes or a string. Like ``Channel.send``."""
        self._connection.call("sendTo", payload_bytes(payload), name=name, **limit(timeout))

    def receive(self, name: str, timeout: float = 5) -> Optional[bytes]:
        """The next payload, or None if none arrives within ``timeout`` seconds.

        The next call for this channel settles it, and so does ``close``.

        Raises ``listener_died`` if the manager has died: close it and create a new one.
        """
        arrivals = self._receive(name, timeout, 1)
        return arrivals[0].payload if arrivals else None

    def receive_envelopes(self, name: str, timeout: float = 5) -> List[Envelope]:
        """The available messages, at most 100; waits ``timeout`` seconds for the first.

        The next call for this channel settles them, and so does ``close``.
        """
        return [envelope_of(arrival) for arrival in self._receive(name, timeout, MOST_AT_ONCE)]

    def channels(self) -> List[Channel]:
        """The channels that this agent is in."""
        return self._client.channels()

    def close(self) -> None:
        """Settles all received messages and shuts down the manager and its client."""
        with self._lock:
            given = [arrival for arrivals in self._given.values() for arrival in arrivals]
            self._given.clear()
        for arrival in given:
            arrival.settlement.settle()
        self._client.close()

    def _receive(self, name: str, timeout: float, most: int) -> List[Arrival]:
        self._connection.check_manager()
        channel = self._named(name)
        inbox = channel._inbox
        with self._lock:
            settled = self._given.pop(channel, [])
        for given in settled:
            given.settlement.settle()
        arrivals: List[Arrival] = []
        while len(arrivals) < most:
            try:
                arrival = inbox.take(self._receiver, 0 if arrivals else timeout)
            except StaticError:
                # Return what arrived before the error; the next call raises it.
                if not arrivals:
                    raise
                break
            if arrival is None:
                break
            arrivals.append(arrival)
        if not arrivals:
            self._connection.check()
        with self._lock:
            self._given.setdefault(channel, []).extend(arrivals)
        return arrivals

    def _named(self, name: str) -> Channel:
        """The channel with this name. One with buffered payloads is not looked up again."""
        known = self._opened.get(name)
        if known is None or not known._inbox.has_ready:
            known = self._opened[name] = self._client.channel(name)
        return known
