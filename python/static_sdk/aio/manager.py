"""Channels by name, for programs that poll, for asyncio."""

from __future__ import annotations

from typing import Dict, List, Literal, Optional

from .._options import Request, Require, Show
from .._values import Arrival, IssuedInvite, Payload, limit, payload_bytes
from .files import Envelope, envelope_of
from ..errors import StaticError
from ..manager import MOST_AT_ONCE
from ._connection import Connection
from .channel import Channel
from .client import Connecting, StaticClient


class _ManagedClient(StaticClient):
    """The client of a manager."""

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
    """A ``StaticClient`` whose channels are named in each call, and whose messages are returned by calls (``receive``).

    For programs that poll, such as tools of a language model; others use the client. It takes the arguments of
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
        return self._client.died

    async def create(self, name: str, *, show: Show = None, require: Require = None) -> Channel:
        """Creates a channel, or opens it if this agent already owns it. Like ``StaticClient.create_channel``."""
        return await self._client.create_channel(name, show=show, require=require)

    async def invite(
        self, name: str, max_uses: int = 1, ttl: float = 3600, admit: Literal["owner", "members"] = "owner",
        *,
        require: Require = None,
        replace: bool = False,
    ) -> str:
        """Creates an invite token. Like ``StaticClient.invite``."""
        return await self._client.invite(name, max_uses, ttl, admit, require=require, replace=replace)

    async def invite_link(
        self,
        name: str,
        max_uses: int = 1,
        ttl: float = 3600,
        endpoint: Optional[str] = None,
        admit: Literal["owner", "members"] = "owner",
        *,
        require: Require = None,
        replace: bool = False,
    ) -> str:
        """Creates an invite and returns it as a link. Like ``StaticClient.invite_link``."""
        return await self._client.invite_link(name, max_uses, ttl, endpoint, admit, require=require, replace=replace)

    async def invites(self, name: str) -> List[IssuedInvite]:
        """The invites to a channel that this agent has created. Like ``StaticClient.invites``."""
        return await self._client.invites(name)

    async def revoke_invite(self, token: str) -> None:
        """Revokes an invite. Like ``StaticClient.revoke_invite``."""
        await self._client.revoke_invite(token)

    async def join_with_token(self, name: str, token: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with a token. Like ``StaticClient.join_with_token``."""
        return await self._client.join_with_token(name, token, timeout, show=show)

    async def join_with_link(self, link: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with an invite link. Like ``StaticClient.join_with_link``."""
        return await self._client.join_with_link(link, timeout, show=show)

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
