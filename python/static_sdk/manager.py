"""Channels by name, with calls that return what has arrived: for programs that poll."""

from __future__ import annotations

import threading
from typing import Dict, List, Literal, Optional

from ._closing import Closing
from ._connection import Connection
from ._configured import Configured
from ._options import Request, Require, Show
from ._values import Arrival, Envelope, IssuedInvite, Payload, limit, payload_bytes
from .files import envelope_of
from .channel import Channel
from .client import StaticClient
from .errors import StaticError

MOST_AT_ONCE = 100


class _ManagedClient(StaticClient):
    """The client of a manager."""

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
    """A ``StaticClient`` whose channels are named in each call, and whose messages are returned by calls (``receive``).

    For programs that poll, such as tools of a language model; others use the client. It takes the arguments of
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
        return self._client.died

    def create(self, name: str, *, show: Show = None, require: Require = None) -> Channel:
        """Creates a channel, or opens it if this agent already owns it. Like ``StaticClient.create_channel``."""
        return self._client.create_channel(name, show=show, require=require)

    def invite(
        self, name: str, max_uses: int = 1, ttl: float = 3600, admit: Literal["owner", "members"] = "owner",
        *,
        require: Require = None,
        replace: bool = False,
    ) -> str:
        """Creates an invite token. Like ``StaticClient.invite``."""
        return self._client.invite(name, max_uses, ttl, admit, require=require, replace=replace)

    def invite_link(
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
        return self._client.invite_link(name, max_uses, ttl, endpoint, admit, require=require, replace=replace)

    def invites(self, name: str) -> List[IssuedInvite]:
        """The invites to a channel that this agent has created. Like ``StaticClient.invites``."""
        return self._client.invites(name)

    def revoke_invite(self, token: str) -> None:
        """Revokes an invite. Like ``StaticClient.revoke_invite``."""
        self._client.revoke_invite(token)

    def join_with_token(self, name: str, token: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with a token. Like ``StaticClient.join_with_token``."""
        return self._client.join_with_token(name, token, timeout, show=show)

    def join_with_link(self, link: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with an invite link. Like ``StaticClient.join_with_link``."""
        return self._client.join_with_link(link, timeout, show=show)

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
