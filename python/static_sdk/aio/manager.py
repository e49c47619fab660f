"""Channels by name, with invites, for asyncio."""

from __future__ import annotations

from typing import Dict, List, Literal, Optional

from .._options import Request
from .._values import Arrival, Envelope, IssuedInvite, Payload, envelope_of, invite_of, limit, payload_bytes, token_text
from ..errors import StaticError
from ..manager import MOST_AT_ONCE
from ._connection import Connection
from .channel import Channel
from .client import Connecting, StaticClient


class _ManagedClient(StaticClient):
    """The client of a manager, which also answers join requests."""

    _is_manager = True

    def __init__(self, request: Request) -> None:
        self._begin(request)


class _Receiver:
    """The reader of ``receive``: never ends, but raises if the manager has died."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_over(self) -> bool:
        self._connection.check_manager()
        return False


class StaticChannelManager(Connecting):
    """Creates, invites, joins, sends and receives by channel name.

    While it runs with an API key it admits agents that join with its invites. It takes the arguments of
    ``StaticClient``, and is connected like one. Methods raise ``StaticError``: switch on its ``code``.
    """

    def _begin(self, request: Request) -> None:
        self._client = _ManagedClient(request)
        self._opened: Dict[str, Channel] = {}
        #: The result of the last call, by channel: the next call settles it.
        self._given: Dict[Channel, List[Arrival]] = {}

    async def connect(self) -> "StaticChannelManager":
        """Starts the agent, like ``StaticClient.connect``. Returns this manager."""
        await self._client.connect()
        return self

    @property
    def _connection(self) -> Connection:
        return self._client._connection

    @property
    def client(self) -> StaticClient:
        """The underlying client, for everything else."""
        return self._client

    @property
    def died(self) -> Optional[StaticError]:
        """None, or ``listener_died`` if join requests are no longer answered: then close it and create a new one."""
        return self._connection.death

    async def create(self, name: str) -> Channel:
        """Creates a channel, or opens it if this agent already owns it. Like ``StaticClient.create_channel``."""
        return await self._client.create_channel(name)

    async def invite(
        self, name: str, max_uses: int = 1, ttl: float = 3600, admit: Literal["owner", "members"] = "owner"
    ) -> str:
        """Creates a token with which ``max_uses`` agents can join a channel that this agent owns, for ``ttl`` seconds.

        The token is a secret: anyone who gets it first can use it. Send it so that only the invited can read it. With
        ``admit="members"``, any member with an account admits agents, even while this agent is offline; they see
        ``confirmed`` on their channel once it has been online again. Raises ``not_found``, ``not_allowed`` if this
        agent does not own the channel, ``api_key_required``, or ``invalid_request``.
        """
        return str((await self._connection.call("invite", name=name, maxUses=max_uses, ttl=ttl, admit=admit))[0])

    async def invite_link(
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
        return str((await self._connection.call("inviteLink", name=name, maxUses=max_uses, ttl=ttl, admit=admit, **address))[0])

    async def invites(self, name: str) -> List[IssuedInvite]:
        """The invites to a channel that this agent has created, the next to expire first. Raises ``not_found``."""
        return [invite_of(told) for told in (await self._connection.call("invites", name=name))[0]]

    async def revoke_invite(self, token: str) -> None:
        """Revokes an invite, given its token or its id. Members that joined with it stay.

        Raises ``invite_invalid`` if this agent did not create it.
        """
        await self._connection.call("revokeInvite", token=token_text(token))

    async def join_with_token(self, name: str, token: str, timeout: float = 60) -> Channel:
        """Joins with a token; returns when the owner has answered. After a timeout, retry with the same token.

        Raises ``join_timeout``, ``invite_invalid``, ``invite_expired``, ``invite_used_up``, ``invite_revoked``,
        ``identity_changed``, ``group_full``, ``invalid_welcome`` or ``channel_exists``.
        """
        told, _ = await self._connection.call("joinWithToken", name=name, token=token_text(token), timeout=timeout)
        return self._client._channel(told)

    async def join_with_link(self, link: str, timeout: float = 60) -> Channel:
        """Joins with an invite link to the relay of this agent. Connect an agent without a relay with ``link=`` first.

        Raises the errors of ``join_with_token``, with ``invite_invalid`` also for a damaged link, one from a newer
        version, or one for another relay.
        """
        return self._client._channel((await self._connection.call("joinWithLink", link=link, timeout=timeout))[0])

    async def send(self, name: str, payload: Payload, *, timeout: Optional[float] = None) -> None:
        """Sends bytes or a string. Like ``Channel.send``."""
        await self._connection.call("sendTo", payload_bytes(payload), name=name, **limit(timeout))

    async def receive(self, name: str, timeout: float = 5) -> Optional[bytes]:
        """The next payload, or None if none arrives within ``timeout`` seconds.

        The next call for this channel settles it, and so does ``close``. A cancelled call takes no payload.

        Raises ``listener_died`` if the manager has died: close it and create a new one.
        """
        arrivals = await self._receive(name, timeout, 1)
        return arrivals[0].payload if arrivals else None

    async def receive_envelopes(self, name: str, timeout: float = 5) -> List[Envelope]:
        """The available messages, at most 100; waits ``timeout`` seconds for the first.

        The next call for this channel settles them, and so does ``close``. A cancelled call takes none.
        """
        return [envelope_of(arrival) for arrival in await self._receive(name, timeout, MOST_AT_ONCE)]

    async def channels(self) -> List[Channel]:
        """The channels that this agent is in."""
        return await self._client.channels()

    async def close(self) -> None:
        """Settles all received messages and shuts down the manager and its client."""
        given = [arrival for arrivals in self._given.values() for arrival in arrivals]
        self._given.clear()
        for arrival in given:
            arrival.settlement.settle()
        await self._client.close()

    async def _receive(self, name: str, timeout: float, most: int) -> List[Arrival]:
        self._connection.check_manager()
        channel = await self._named(name)
        receiver = _Receiver(self._connection)
        for given in self._given.pop(channel, []):
            given.settlement.settle()
        inbox = await channel._open()
        first = await inbox.take(receiver, timeout)
        if first is None:
            self._connection.check()
            return []
        # There is no await after this point, so a cancelled call has taken nothing.
        arrivals = [first]
        while len(arrivals) < most:
            arrival = inbox.take_ready()
            if arrival is None:
                break
            arrivals.append(arrival)
        self._given.setdefault(channel, []).extend(arrivals)
        return arrivals

    async def _named(self, name: str) -> Channel:
        """The channel with this name. One with buffered payloads is not looked up again."""
        known = self._opened.get(name)
        if known is None or known._inbox is None or not known._inbox.has_ready:
            known = self._opened[name] = await self._client.channel(name)
        return known
