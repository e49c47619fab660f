"""Channels by name, with invites: the simple way to use an agent."""

from __future__ import annotations

import threading
from typing import Dict, List, Optional

from ._closing import Closing
from ._connection import Connection
from ._inbox import Arrival
from .channel import Channel, Envelope, as_bytes, envelope_of
from .client import Path, StaticClient, options_of
from .errors import StaticError

MOST_AT_ONCE = 100


class _ManagedClient(StaticClient):
    """The client below a manager: the same, with what answers invites."""

    def __init__(self, options: Dict[str, object], identity: Optional[bytes]) -> None:
        self._open(True, options, identity)


class _Receiver:
    """Reads for ``receive``: for ever, but it raises when the manager is dead."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_over(self) -> bool:
        self._connection.check_manager()
        return False


class StaticChannelManager(Closing):
    """Creates, invites, joins, sends and receives by channel name.

    While it runs with an API key it lets in those who ask by its invites. The arguments are those of ``StaticClient``.
    Every method raises a ``StaticError``: switch on its ``code``.
    """

    def __init__(
        self,
        endpoint: Optional[str],
        data_dir: Optional[Path],
        identity: Optional[bytes],
        api_key: Optional[str] = None,
        api_url: Optional[str] = None,
        *,
        ca: Optional[Path] = None,
        traffic: Optional[str] = None,
        offers: Optional[str] = None,
    ) -> None:
        self._client = _ManagedClient(options_of(endpoint, data_dir, api_key, api_url, ca, traffic, offers), identity)
        self._connection = self._client._connection
        self._receiver = _Receiver(self._connection)
        self._lock = threading.Lock()
        self._opened: Dict[str, Channel] = {}
        #: What the last call has given, by channel: the next one settles it.
        self._given: Dict[Channel, List[Arrival]] = {}

    @property
    def client(self) -> StaticClient:
        """The client below, for everything else."""
        return self._client

    def create(self, name: str) -> Channel:
        """Creates a channel, or opens the own one. As ``StaticClient.create_channel``."""
        return self._client.create_channel(name)

    def invite(self, name: str, max_uses: int = 1, ttl: float = 3600) -> str:
        """Makes a token by which so many can join an own channel for ``ttl`` seconds.

        It is a secret: whoever has it first can use it. Hand it over by a way that only the invited can read. Raises
        ``not_found``, ``not_allowed`` unless the channel is this agent's own, or ``api_key_required``.
        """
        return str(self._connection.call("invite", name=name, maxUses=max_uses, ttl=ttl)[0])

    def revoke_invite(self, token: str) -> None:
        """Ends an invite. Who has joined by it stays. Raises ``invite_invalid`` when it is not of this agent."""
        self._connection.call("revokeInvite", token=_text(token))

    def join_with_token(self, name: str, token: str, timeout: float = 60) -> Channel:
        """Joins by a token; returns when the owner has answered. After a timeout the same token carries on.

        Raises ``join_timeout``, ``invite_invalid``, ``invite_expired``, ``invite_used_up``, ``invite_revoked``,
        ``identity_changed``, ``group_full``, ``invalid_welcome`` or ``channel_exists``.
        """
        return self._client._channel(
            self._connection.call("joinWithToken", name=name, token=_text(token), timeout=timeout)[0]
        )

    def send(self, name: str, payload: bytes) -> None:
        """Sends bytes. As ``Channel.send``."""
        self._connection.call("sendTo", as_bytes(payload, "payload"), name=name)

    def receive(self, name: str, timeout: float = 5) -> Optional[bytes]:
        """The next payload, or None when none has come in so many seconds. The next call settles it.

        Raises ``listener_died`` when the manager must be closed and made anew.
        """
        arrivals = self._receive(name, timeout, 1)
        return arrivals[0].payload if arrivals else None

    def receive_envelopes(self, name: str, timeout: float = 5) -> List[Envelope]:
        """Those that are here, at most 100; waits so many seconds for the first one. The next call settles them."""
        return [envelope_of(arrival) for arrival in self._receive(name, timeout, MOST_AT_ONCE)]

    def channels(self) -> List[Channel]:
        """The channels that this agent is in."""
        return self._client.channels()

    def close(self) -> None:
        """Ends in order."""
        self._client.close()

    def _receive(self, name: str, timeout: float, most: int) -> List[Arrival]:
        self._connection.check_manager()
        channel = self._named(name)
        inbox = channel._inbox
        with self._lock:
            settled = self._given.pop(channel, [])
        for given in settled:
            inbox.settle(given.token)
        arrivals: List[Arrival] = []
        while len(arrivals) < most:
            try:
                arrival = inbox.take(self._receiver, 0 if arrivals else timeout)
            except StaticError:
                # What has come first is given first; the next call hears of it.
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
        """The channel of a name. One with payloads here need not be looked up again."""
        known = self._opened.get(name)
        if known is None or not known._inbox.has_ready:
            known = self._opened[name] = self._client.channel(name)
        return known


def _text(token: object) -> Optional[str]:
    """A token on its way to the driver, which refuses what is no text."""
    return token if isinstance(token, str) else None
