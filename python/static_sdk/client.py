"""The client: an agent and its connection to a relay."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, List, Literal, Mapping, Optional, TypeVar

from ._closing import Closing
from ._connection import Call, Connection
from ._configured import Configured
from ._minting import mint_with
from ._options import Request, Require, Show, proving
from ._values import IssuedInvite, as_bytes, invite_of, token_text
from .channel import Channel
from .errors import StaticError, low_level
from .events import Event, event_of

Item = TypeVar("Item")


@dataclass(frozen=True)
class JoinOffer:
    """A channel that another agent added this agent to. Nothing is read or sent there before ``accept``."""

    name: str
    channel_id: str
    #: Fingerprints, from inside the Welcome: compare them before you accept.
    owner: str
    added_by: str
    #: Joins the channel; with ``show``, shows the members who runs this agent.
    accept: Callable[..., Channel]
    #: Leaves the channel without joining it.
    decline: Callable[[], None]


class Listening(Closing, Generic[Item]):
    """A blocking iterator over events or join offers of the client."""

    def __init__(self, client: "StaticClient", connection: Connection, what: str, item: Callable[[Any], Item]) -> None:
        self._client = client
        self._connection = connection
        self._item = item
        self._reads_events = what == "events"
        on, _ = connection.call(what)
        self._on: int = on
        #: The pending call of a ``next`` that Ctrl-C interrupted.
        self._next: Optional[Call] = None
        # After ``break``, nothing closes it, and the driver would collect events for it.
        weakref.finalize(self, connection.leave, on).atexit = False

    def __iter__(self) -> "Listening[Item]":
        return self

    def __next__(self) -> Item:
        if self._reads_events:
            self._connection.log.begin_reading(self)
        if self._next is None:
            self._next = self._connection.begin("next", on=self._on)
        told, _ = self._next.wait()
        self._next = None
        if told.get("done"):
            self._connection.log.end_reading(self)
            raise StopIteration
        return self._item(told)

    def close(self) -> None:
        """Ends the iterator, even for a thread that is waiting in it."""
        self._connection.log.end_reading(self)
        if not self._connection.is_over:
            self._connection.call("return", on=self._on)


class StaticClient(Configured, Closing):
    """An agent with its keys and channels, and a connection to a relay that reconnects automatically.

    With an API key it also admits agents that join with its invites, while it runs. An argument that is None comes from
    its environment variable, then from the per-user file. All clients of a program share one driver process.

    Raises ``StaticError``, which is a ``RuntimeError``: ``connection_error`` if the relay cannot be reached,
    ``AuthError`` if the relay or the API refuses the credentials, ``invalid_request`` for invalid arguments,
    ``store_*`` if the database cannot be opened.
    """

    #: Whether the texts of its errors begin with the prefixes of the low-level client.
    _is_low_level = True

    __init__ = low_level(Configured.__init__)

    def _begin(self, request: Request) -> None:
        self._channels: Dict[int, Channel] = {}
        self._lock = threading.Lock()
        self._connection = Connection(request.api_url, request.log, self._is_low_level)
        if request.mint is not None:
            mint_with(self._connection, request.mint)
        try:
            told, _ = self._connection.call("connect", request.identity or b"", **request.fields())
        except BaseException:
            self._connection.abort()
            raise
        self._connection.api_url = told["apiUrl"]
        self._agent_id: str = told["agentId"]
        self._fingerprint: str = told["fingerprint"]
        # Close the client when it is garbage-collected.
        weakref.finalize(self, self._connection.end).atexit = False

    @property
    def agent_id(self) -> str:
        """SHA-256 of this agent's key, 64 hexadecimal digits. Others use it to add this agent."""
        return self._agent_id

    def fingerprint(self) -> str:
        """The agent id in a readable form, to read aloud or compare."""
        return self._fingerprint

    @property
    def died(self) -> Optional[StaticError]:
        """None, or ``listener_died`` if join requests are no longer answered: then close it and create a new one."""
        return self._connection.death

    def create_channel(self, name: str, *, show: Show = None, require: Require = None) -> Channel:
        """Creates a channel owned by this agent, or opens it if this agent already owns it.

        Raises ``channel_error`` for an invalid name, ``channel_exists`` or ``api_key_required``.

        ``show`` shows the members who runs this agent: ``True``, or the issuer, such as a domain. With ``require``, only
        agents that prove one of these rules may join: see ``invite``. Members that others add are asked for their proof,
        and removed after 10 minutes without one.
        """
        return self._channel(self._connection.call("createChannel", name=name, **proving(show, require))[0])

    def channel(self, name: str) -> Channel:
        """Opens a channel that this agent is in, even after a restart. Raises ``channel_error`` or ``not_found``."""
        return self._channel(self._connection.call("channel", name=name)[0])

    def channels(self) -> List[Channel]:
        """The channels that this agent is in."""
        return [self._channel(told) for told in self._connection.call("channels")[0]]

    def generate_key_package(self) -> bytes:
        """Creates a KeyPackage with which others can add this agent, once, within 84 days."""
        return self._connection.call("generateKeyPackage")[1]

    def join_channel(self, name: str, welcome: bytes, owner: Optional[str] = None, *, show: Show = None) -> Channel:
        """Joins a channel with a Welcome that you received yourself.

        Without ``owner``, the owner's fingerprint, the bytes must come from a source that no one else can write to: the
        creator of the Welcome decides who is in the channel. Raises ``invalid_welcome``, ``channel_exists`` or
        ``channel_error``.
        """
        fields = {**({} if owner is None else {"owner": owner}), **proving(show)}
        return self._channel(
            self._connection.call("joinChannel", as_bytes(welcome, "welcome"), name=name, **fields)[0]
        )

    def invite(
        self, name: str, max_uses: int = 1, ttl: float = 3600, admit: Literal["owner", "members"] = "owner",
        *,
        require: Require = None,
        replace: bool = False,
    ) -> str:
        """Creates a token with which ``max_uses`` agents can join a channel that this agent owns, for ``ttl`` seconds.

        The token is a secret: anyone who gets it first can use it. Send it so that only the invited can read it. With
        ``admit="members"``, any member with an account admits agents, even while this agent is offline; they see
        ``confirmed`` on their channel once it has been online again. Raises ``not_found``, ``not_allowed`` if this
        agent does not own the channel, ``api_key_required``, or ``invalid_request``.

        With ``require``, only agents are admitted that prove one of these rules: a domain, ``github:acme/app@REF``,
        ``oidc:ISSUER#SUBJECT`` or ``spiffe://DOMAIN/PATH``, of an issuer in ``roots``. With ``replace``, a joiner takes the
        place of members that were proven under the same name, as CI jobs need, which have a new key in each run.
        """
        return str(self._connection.call(
            "invite", name=name, maxUses=max_uses, ttl=ttl, admit=admit, replace=replace, **proving(require=require)
        )[0])

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
        """Like ``invite``, but returns a link for agents on other machines, with the relay's address and CA.

        ``endpoint`` is the address of the relay for the invitee, ``quic://host:4433`` or ``https://host:5000``, or
        several separated by commas, if it differs from the one this agent uses. A link is as secret as its token.
        """
        address = {} if endpoint is None else {"endpoint": endpoint}
        return str(self._connection.call(
            "inviteLink", name=name, maxUses=max_uses, ttl=ttl, admit=admit, replace=replace, **address, **proving(require=require)
        )[0])

    def invites(self, name: str) -> List[IssuedInvite]:
        """The invites to a channel that this agent has created, the next to expire first. Raises ``not_found``."""
        return [invite_of(told) for told in self._connection.call("invites", name=name)[0]]

    def revoke_invite(self, token: str) -> None:
        """Revokes an invite, given its token or its id. Members that joined with it stay.

        Raises ``invite_invalid`` if this agent did not create it.
        """
        self._connection.call("revokeInvite", token=token_text(token))

    def join_with_token(self, name: str, token: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with a token; returns when the owner has answered. After a timeout, retry with the same token.

        Raises ``join_timeout``, ``invite_invalid``, ``invite_expired``, ``invite_used_up``, ``invite_revoked``,
        ``proof_required``, ``identity_changed``, ``group_full``, ``invalid_welcome`` or ``channel_exists``.
        """
        return self._channel(
            self._connection.call("joinWithToken", name=name, token=token_text(token), timeout=timeout, **proving(show))[0]
        )

    def join_with_link(self, link: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with an invite link to the relay of this agent. Connect an agent without a relay with ``link=`` first.

        Raises the errors of ``join_with_token``, with ``invite_invalid`` also for a damaged link, one from a newer
        version, or one for another relay.
        """
        return self._channel(self._connection.call("joinWithLink", link=link, timeout=timeout, **proving(show))[0])

    def joins(self) -> "Listening[JoinOffer]":
        """Channels that others added this agent to: first the pending ones, then new ones as they arrive."""
        return Listening(self, self._connection, "joins", self._offer)

    def events(self) -> "Listening[Event]":
        """Events other than messages, from now on: connections, members, changed keys, gaps, forks, lagging members.

        Channels that have already failed, for example while the agent started, are reported first.
        """
        return Listening(self, self._connection, "events", self._event)

    def close(self) -> None:
        """Shuts the agent down. Unsent messages are sent at the next start; pending calls fail with ``closed``."""
        self._connection.close()

    def _channel(self, told: Mapping[str, Any]) -> Channel:
        """Returns the same object for the same channel."""
        with self._lock:
            known = self._channels.get(told["on"])
            if known is None:
                known = self._channels[told["on"]] = Channel(self, self._connection, told)
            return known

    def _offer(self, told: Mapping[str, Any]) -> JoinOffer:
        def accept(*, show: Show = None) -> Channel:
            return self._channel(self._connection.call("accept", on=told["offer"], **proving(show))[0])

        def decline() -> None:
            self._connection.call("decline", on=told["offer"])

        return JoinOffer(told["name"], told["channelId"], told["owner"], told["addedBy"], accept, decline)

    def _event(self, told: Mapping[str, Any]) -> Event:
        return event_of(told["event"], self._connection.error)
