"""The client for asyncio: an agent and its connection to a relay."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, Generator, Generic, List, Literal, Mapping, Optional, TypeVar

from .._configured import Configured
from .._options import Request, Require, Show, proving
from .._values import IssuedInvite, as_bytes, invite_of, token_text
from ..errors import StaticError, make_error
from ..events import Event, event_of
from ._closing import Closing
from ._connection import Call, Connection
from ._inbox import Inbox
from ._minting import mint_with
from .channel import Channel

Item = TypeVar("Item")
Self = TypeVar("Self", bound="Connecting")


@dataclass(frozen=True)
class JoinOffer:
    """A channel that another agent added this agent to. Nothing is read or sent there before ``accept``."""

    name: str
    channel_id: str
    #: Fingerprints, from inside the Welcome: compare them before you accept.
    owner: str
    added_by: str
    #: Joins the channel; with ``show``, shows the members who runs this agent.
    accept: Callable[..., Awaitable[Channel]]
    #: Leaves the channel without joining it.
    decline: Callable[[], Awaitable[None]]


class Listening(Closing, Generic[Item]):
    """An asynchronous iterator over events or join offers of the client."""

    def __init__(self, client: "StaticClient", connection: Connection, what: str, item: Callable[[Any], Item]) -> None:
        self._client = client
        self._connection = connection
        self._item = item
        self._reads_events = what == "events"
        self._opening = connection.begin(what)
        #: The pending call for the next item. It stays when a task that waits for it is cancelled.
        self._next: Optional[Call] = None
        self._is_open = False

    def __aiter__(self) -> "Listening[Item]":
        return self

    async def __anext__(self) -> Item:
        if self._reads_events:
            self._connection.log.begin_reading(self)
        on, _ = await self._opening.wait()
        if not self._is_open:
            self._is_open = True
            # After ``break``, nothing closes it, and the driver would collect events for it.
            weakref.finalize(self, self._connection.leave, on).atexit = False
        while True:
            if self._next is None:
                self._next = self._connection.begin("next", on=on)
            call = self._next
            told, _ = await call.wait()
            # Another task may have taken it.
            if self._next is call:
                self._next = None
                if told.get("done"):
                    self._connection.log.end_reading(self)
                    raise StopAsyncIteration
                return self._item(told)

    async def close(self) -> None:
        """Ends the iterator, even for a task that is waiting in it."""
        self._connection.log.end_reading(self)
        if not self._connection.is_over:
            on, _ = await self._opening.wait()
            await self._connection.call("return", on=on)


class Connecting(Configured, Closing):
    """Base class of objects that connect when awaited or entered."""

    async def connect(self: Self) -> Self:
        raise NotImplementedError

    def __await__(self: Self) -> Generator[Any, None, Self]:
        return self.connect().__await__()

    async def __aenter__(self: Self) -> Self:
        return await self.connect()


class StaticClient(Connecting):
    """An agent with its keys and channels, and a connection to a relay that reconnects automatically.

    Connect it with ``async with StaticClient(…) as client`` or ``client = await StaticClient(…)``. An argument that is
    None comes from its environment variable, then from the per-user file.
    """

    def _begin(self, request: Request) -> None:
        self._request = request
        self._was_connected = False
        self._opening: Optional[Connection] = None

    async def connect(self) -> "StaticClient":
        """Starts the agent; once only. Returns this client.

        Raises ``StaticError``, which is a ``RuntimeError``: ``connection_error`` if the relay cannot be reached,
        ``AuthError`` if the relay or the API refuses the credentials, ``invalid_request`` for invalid arguments,
        ``store_*`` if the database cannot be opened.
        """
        if self._was_connected:
            raise make_error("invalid_request", "`connect` was called before. Create a new client.")
        self._was_connected = True
        request = self._request
        connection = self._opening = await Connection.open(request.api_url, request.log)
        if request.mint is not None:
            mint_with(connection, request.mint)
        try:
            told, _ = await connection.call("connect", request.identity or b"", **request.fields())
        except BaseException:
            await connection.abort()
            raise
        connection.api_url = told["apiUrl"]
        self._channels: Dict[int, Channel] = {}
        self._inboxes: Dict[int, Inbox] = {}
        self._agent_id: str = told["agentId"]
        self._fingerprint: str = told["fingerprint"]
        # Close the client when it is garbage-collected.
        weakref.finalize(self, connection.end).atexit = False
        return self

    @property
    def _connection(self) -> Connection:
        if self._opening is None:
            raise make_error("closed", "The client is not connected. Use `async with`, or await it.")
        return self._opening

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

    async def create_channel(self, name: str, *, show: Show = None, require: Require = None) -> Channel:
        """Creates a channel owned by this agent, or opens it if this agent already owns it.

        Raises ``channel_error`` for an invalid name, ``channel_exists`` or ``api_key_required``.

        ``show`` shows the members who runs this agent: ``True``, or the issuer, such as a domain. With ``require``, only
        agents that prove one of these rules may join: see ``invite``. Members that others add are asked for their proof,
        and removed after 10 minutes without one.
        """
        return self._channel((await self._connection.call("createChannel", name=name, **proving(show, require)))[0])

    def channel(self, name: str) -> Channel:
        """A channel that this agent is in, even after a restart. It is not a coroutine.

        Its calls raise ``channel_error`` for an invalid name, ``not_found`` if this agent is not in it, and ``removed``
        if it was. Await it to check that first: ``channel = await client.channel(name)``.
        """
        return Channel(self, self._connection, name)

    async def channels(self) -> List[Channel]:
        """The channels that this agent is in."""
        return [self._channel(told) for told in (await self._connection.call("channels"))[0]]

    async def generate_key_package(self) -> bytes:
        """Creates a KeyPackage with which others can add this agent, once, within 84 days."""
        return (await self._connection.call("generateKeyPackage"))[1]

    async def join_channel(self, name: str, welcome: bytes, owner: Optional[str] = None, *, show: Show = None) -> Channel:
        """Joins a channel with a Welcome that you received yourself.

        Without ``owner``, the owner's fingerprint, the bytes must come from a source that no one else can write to: the
        creator of the Welcome decides who is in the channel. Raises ``invalid_welcome``, ``channel_exists`` or
        ``channel_error``.
        """
        fields = {**({} if owner is None else {"owner": owner}), **proving(show)}
        data = as_bytes(welcome, "welcome")
        return self._channel((await self._connection.call("joinChannel", data, name=name, **fields))[0])

    async def invite(
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
        return str((await self._connection.call(
            "invite", name=name, maxUses=max_uses, ttl=ttl, admit=admit, replace=replace, **proving(require=require)
        ))[0])

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
        """Like ``invite``, but returns a link for agents on other machines, with the relay's address and CA.

        ``endpoint`` is the address of the relay for the invitee, ``quic://host:4433`` or ``https://host:5000``, or
        several separated by commas, if it differs from the one this agent uses. A link is as secret as its token.
        """
        address = {} if endpoint is None else {"endpoint": endpoint}
        return str((await self._connection.call(
            "inviteLink", name=name, maxUses=max_uses, ttl=ttl, admit=admit, replace=replace, **address, **proving(require=require)
        ))[0])

    async def invites(self, name: str) -> List[IssuedInvite]:
        """The invites to a channel that this agent has created, the next to expire first. Raises ``not_found``."""
        return [invite_of(told) for told in (await self._connection.call("invites", name=name))[0]]

    async def revoke_invite(self, token: str) -> None:
        """Revokes an invite, given its token or its id. Members that joined with it stay.

        Raises ``invite_invalid`` if this agent did not create it.
        """
        await self._connection.call("revokeInvite", token=token_text(token))

    async def join_with_token(self, name: str, token: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with a token; returns when the owner has answered. After a timeout, retry with the same token.

        Raises ``join_timeout``, ``invite_invalid``, ``invite_expired``, ``invite_used_up``, ``invite_revoked``,
        ``proof_required``, ``identity_changed``, ``group_full``, ``invalid_welcome`` or ``channel_exists``.
        """
        told, _ = await self._connection.call("joinWithToken", name=name, token=token_text(token), timeout=timeout, **proving(show))
        return self._channel(told)

    async def join_with_link(self, link: str, timeout: float = 60, *, show: Show = None) -> Channel:
        """Joins with an invite link to the relay of this agent. Connect an agent without a relay with ``link=`` first.

        Raises the errors of ``join_with_token``, with ``invite_invalid`` also for a damaged link, one from a newer
        version, or one for another relay.
        """
        return self._channel((await self._connection.call("joinWithLink", link=link, timeout=timeout, **proving(show)))[0])

    def joins(self) -> "Listening[JoinOffer]":
        """Channels that others added this agent to: first the pending ones, then new ones as they arrive."""
        return Listening(self, self._connection, "joins", self._offer)

    def events(self) -> "Listening[Event]":
        """Events other than messages, from now on: connections, members, changed keys, gaps, forks, lagging members.

        Channels that have already failed, for example while the agent started, are reported first.
        """
        return Listening(self, self._connection, "events", self._event)

    async def close(self) -> None:
        """Shuts the agent down. Unsent messages are sent at the next start; pending calls fail with ``closed``."""
        if self._opening is not None:
            await self._opening.close()

    def _channel(self, told: Mapping[str, Any]) -> Channel:
        """Returns the same object for the same channel."""
        known = self._channels.get(told["on"])
        if known is None:
            known = self._channels[told["on"]] = Channel(self, self._connection, told["name"], told)
        return known

    def _inbox(self, on: int) -> Inbox:
        known = self._inboxes.get(on)
        if known is None:
            known = self._inboxes[on] = Inbox(self._connection, on)
        return known

    def _offer(self, told: Mapping[str, Any]) -> JoinOffer:
        async def accept(*, show: Show = None) -> Channel:
            return self._channel((await self._connection.call("accept", on=told["offer"], **proving(show)))[0])

        async def decline() -> None:
            await self._connection.call("decline", on=told["offer"])

        return JoinOffer(told["name"], told["channelId"], told["owner"], told["addedBy"], accept, decline)

    def _event(self, told: Mapping[str, Any]) -> Event:
        return event_of(told["event"], self._connection.error)
