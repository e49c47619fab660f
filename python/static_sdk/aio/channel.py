"""Channels, for asyncio."""

from __future__ import annotations

from typing import Any, Callable, Generator, Generic, List, Literal, Mapping, Optional, Protocol, Sequence, TypeVar, Union, overload

from .._asking import Answer, ChannelRequest, ask_fields, only_answer
from .._options import Require, identity_bytes, proving
from .._schema import Schema, Value, check_of, fitted, fitted_message, value_text
from .._values import (
    Arrival,
    ChannelMember,
    ListedMember,
    MemberReceipt,
    Ownership,
    Payload,
    PoisonMessage,
    Reached,
    SentFile,
    SentMessage,
    about_file,
    limit,
    listed_member_of,
    member_of,
    members_fields,
    ownership_of,
    payload_bytes,
    payload_of,
    poison_of,
    poison_place,
    reached_fields,
    reached_of,
    receipt_of,
    sent_file_of,
    welcomes_of,
)
from ..errors import make_error
from ._closing import Closing
from ._connection import Connection
from ._handling import handle
from ._inbox import Inbox
from .asks import Answers, Ask, json_server, serve
from .files import Envelope, Progress, ReceivedFile, call_with_progress, envelope_of, files_of

Item = TypeVar("Item")


class PoisonMessages:
    """Messages of a channel that a handler failed on too often."""

    def __init__(self, connection: Connection, on: Union[int, str]) -> None:
        self._connection = connection
        self._on = on

    async def list(self) -> List[PoisonMessage]:
        """All messages that were put aside, in log order."""
        messages: List[PoisonMessage] = []
        while True:
            after = poison_place(messages)
            more = poison_of(*await self._connection.call("poison", on=self._on, after=after))
            if not more:
                return messages
            messages.extend(more)

    async def retry(self, message: str) -> None:
        """Delivers a message again and counts its attempts from zero. Pass its ``message_id``.

        Raises ``not_found``; ``invalid_request`` if several have this id, since senders choose them: then pass
        ``message_id@index``.
        """
        await self._connection.call("retryPoison", on=self._on, message=message)

    async def drop(self, message: str) -> None:
        """Permanently deletes a message. Pass its ``message_id``, or ``message_id@index``. Raises as ``retry``."""
        await self._connection.call("dropPoison", on=self._on, message=message)


class Reading(Closing, Generic[Item]):
    """An asynchronous iterator over the messages of a channel, for one task; other tasks need their own.

    Asking for the next item settles the last one. Leaving the loop, by ``break``, by an exception or by cancellation,
    does not: that item is delivered again. If you keep the iterator in a variable, end it with ``close()`` or an
    ``async with`` block.
    """

    def __init__(self, channel: "Channel", inbox: Optional[Inbox], item: Callable[[Arrival], Item]) -> None:
        # Keeps the channel, and so the client, alive while it is read.
        self._channel = channel
        #: None until the channel is open.
        self._inbox = inbox
        self._item = item
        self._stops = 0 if inbox is None else inbox.stops
        self._given: Optional[Arrival] = None
        self._left = False

    def __aiter__(self) -> "Reading[Item]":
        return self

    async def __anext__(self) -> Item:
        given, self._given = self._given, None
        if given is not None:
            given.settlement.settle()
        if self._inbox is None:
            self._inbox = await self._channel._open()
            self._stops = self._inbox.stops
        arrival = await self._inbox.take(self)
        if arrival is None:
            self._left = True
            raise StopAsyncIteration
        self._given = arrival
        return self._item(arrival)

    def is_over(self) -> bool:
        """Whether the iterator was closed, or its channel."""
        return self._left or (self._inbox is not None and self._stops != self._inbox.stops)

    async def close(self) -> None:
        """Ends the iterator, even for a task that is waiting in it. The last item is delivered again."""
        self._left = True
        self._give_back()
        if self._inbox is not None:
            self._inbox.wake()

    def __del__(self) -> None:
        self._give_back()

    def _give_back(self) -> None:
        given, self._given = self._given, None
        if given is not None and not given.settlement.is_settled and self._inbox is not None:
            self._inbox.give_back(given)


class Home(Protocol):
    """The client that a channel belongs to."""

    def _inbox(self, on: int) -> Inbox:
        """The inbox of a channel, by its number."""

    def _channel(self, told: Mapping[str, Any]) -> "Channel":
        """The one object of a channel that is open."""


class Channel(Closing):
    """A channel that this agent is a member of. Any number of tasks may send and receive at the same time.

    ``client.channel(name)`` returns it at once: if this agent is not a member, its calls raise ``not_found``. Await it
    to find out first.

    Network failures, relay restarts and commits by other members are handled internally. Methods raise ``StaticError``,
    a ``RuntimeError`` whose ``code`` identifies the problem.
    """

    def __init__(
        self, client: Home, connection: Connection, name: str, told: Optional[Mapping[str, Any]] = None
    ) -> None:
        # A client without references is closed, so keep one.
        self._client = client
        self._connection = connection
        self._name = name
        #: Its handle in the driver; the name, until it is open.
        self._on: Union[int, str] = name
        #: The driver's description of it; None until it is open.
        self._told = told
        #: None until it is open.
        self._inbox: Optional[Inbox] = None
        if told is not None:
            self._opened(told)

    def __await__(self) -> Generator[Any, None, "Channel"]:
        return self._find().__await__()

    async def _find(self) -> "Channel":
        told, _ = await self._connection.call("channel", name=self._name)
        self._opened(told)
        return self._client._channel(told)

    async def _open(self) -> Inbox:
        if self._inbox is None:
            await self._find()
        assert self._inbox is not None
        return self._inbox

    def _opened(self, told: Mapping[str, Any]) -> None:
        self._told = told
        self._on = told["on"]
        self._inbox = self._client._inbox(told["on"])

    def _fact(self, name: str) -> str:
        if self._told is None:
            raise make_error("invalid_request", f"`{name}` is not known before the channel is open. Await it first.")
        return str(self._told[name])

    @property
    def name(self) -> str:
        """``org/namespace/service``."""
        return self._name

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
        return self._fact("id")

    @property
    def owner(self) -> str:
        """The fingerprint of the agent that owned the channel when this object was made; see ``ownership``."""
        return self._fact("owner")

    async def send(self, payload: Payload, *, timeout: Optional[float] = None) -> None:
        """Sends bytes or a string, at most 262,144 bytes, to all members. Returns when the relay has stored it on disk.

        If the program exits before that, it is sent at the next start. Raises ``too_large``, ``quota_exceeded``,
        ``queue_full``, ``removed``, ``fork_detected``, ``mls_error`` or ``closed``, and ``TypeError`` for anything but
        bytes, bytearray, memoryview or str. After ``timeout`` seconds: ``cancelled`` if the message will not be sent,
        ``send_pending`` if it may still arrive. If it waits for more than 5 s, the event ``Waiting`` says what for.

        A task that is cancelled here stops waiting at once. The message is not sent if it was not encrypted yet;
        otherwise it still arrives.
        """
        await self.send_envelope(payload, timeout=timeout)

    async def send_envelope(self, payload: Payload, *, timeout: Optional[float] = None) -> SentMessage:
        """Like ``send``; returns the message's id and position."""
        told, _ = await self._connection.call("send", payload_bytes(payload), on=self._on, **limit(timeout))
        return SentMessage(told["messageId"], told["index"])

    async def send_json(
        self, value: Any, *, timeout: Optional[float] = None, schema: Optional[Schema[Any]] = None
    ) -> SentMessage:
        """Sends a value as JSON. The receiver gets it with ``envelope.json()``. Returns the id and position.

        A value of pydantic writes itself. With ``schema``, a pydantic model, another type that pydantic knows, or a
        ``TypeAdapter``, a value that does not fit is not sent: ``schema_mismatch``. Raises ``TypeError`` or
        ``ValueError`` for a value that JSON cannot hold; otherwise like ``send``.
        """
        text = value_text(value)
        if schema is not None:
            self._connection.explain(lambda: fitted(check_of(schema), text.encode(), "The value"))
        return await self.send_envelope(text, timeout=timeout)

    async def send_file(
        self,
        path: object,
        *,
        name: Optional[str] = None,
        type: Optional[str] = None,
        text: Optional[str] = None,
        progress: Optional[Progress] = None,
    ) -> SentFile:
        """Sends a file: its parts first, encrypted, then the message that names it. Returns when the relay has stored that.

        The receivers fetch it when they want (``envelope.file``, ``files``). ``text`` is the payload of the message.
        ``progress`` is called with the bytes that the relay has stored and the size. Lost connections are waited
        out; if the program ends, the next call for the same path, with the same name, type and text, continues where it
        stopped. Raises ``file_changed`` if something has written to the file: nothing was sent; ``invalid_request`` if it
        cannot be read; ``too_large``, ``quota_exceeded``, ``queue_full``, ``not_allowed`` with the traffic profiles
        ``private`` and ``strict`` unless the client has ``visible_files``, ``files_unavailable``; and as ``send``.
        """
        fields = self._connection.explain(lambda: about_file(path, name, type, text))
        told, _ = await call_with_progress(self._connection, "sendFile", progress, on=self._on, **fields)
        return sent_file_of(told)

    async def files(self) -> List[ReceivedFile]:
        """The files from other members that this agent has neither saved nor dropped, even before a restart."""
        return await files_of(self, self._connection, self._on)

    async def delete_file(self, file_id: str) -> None:
        """Deletes a file at the relay for all members that have not saved it.

        One that this agent has sent or, by the owner, any. Raises ``not_allowed`` or ``invalid_request``.
        """
        await self._connection.call("deleteFile", on=self._on, file=file_id)

    def messages(self) -> "Reading[bytes]":
        """The payloads from other members, starting with the first unsettled one: an endless asynchronous iterator.

        Asking for the next payload settles the current one. Leaving the loop, by ``break``, by an exception or by
        cancellation, does not: that payload is delivered again, in the next loop or after a restart. Several iterators
        share the payloads: each payload goes to one of them. Ends when the channel or the client is closed, or when the
        agent leaves the channel; raises the error if something else ended it: ``removed``, ``not_found``,
        ``mls_error``, ``listener_died``.
        """
        return Reading(self, self._inbox, payload_of)

    def envelopes(self) -> "Reading[Envelope]":
        """Like ``messages``, with the verified sender and the position of each payload.

        ``envelope.settle()`` settles it at once. It is not a coroutine.
        """
        return Reading(self, self._inbox, envelope_of)

    @overload
    async def handle(
        self, handler: Callable[[Envelope], Any], *, concurrency: int = 1, attempts: int = 10, schema: None = None
    ) -> None: ...

    @overload
    async def handle(
        self,
        handler: Callable[[Envelope, Value], Any],
        *,
        concurrency: int = 1,
        attempts: int = 10,
        schema: Schema[Value],
    ) -> None: ...

    async def handle(
        self,
        handler: Callable[..., Any],
        *,
        concurrency: int = 1,
        attempts: int = 10,
        schema: Optional[Schema[Any]] = None,
    ) -> None:
        """Calls a function or coroutine function for each message and settles the message when it returns.

        If it raises an ``Exception``, it is called again after 1, 5, 30, 60 and then every 300 seconds; later messages
        from the same sender wait. After ``attempts`` failures the message is put aside on disk (``poison``) and the
        next one is handled. Events report each failure (``HandlerFailed``) and each message that is put aside
        (``Poison``). With ``concurrency`` it runs in several tasks, and messages may overtake each other. Returns when
        the channel or the client is closed; raises the error that ended the channel, as ``messages`` does.

        Cancelling it cancels the handlers in progress. Their messages count as tried, and are delivered again.

        With ``schema``, payloads are JSON, and the function gets the checked value as a second argument: an instance of
        a pydantic model, or what a ``TypeAdapter`` gives. A message that does not fit is put aside at once.
        """
        check = None if schema is None else self._connection.explain(lambda: check_of(schema))

        def call(arrival: Arrival) -> Any:
            if check is None:
                return handler(envelope_of(arrival))
            return handler(envelope_of(arrival), fitted_message(check, arrival.payload))

        inbox = await self._open()
        await handle(
            self._connection,
            self._name,
            inbox.on,
            inbox,
            call,
            concurrency,
            attempts,
        )

    def ask(self, payload: Payload, *, to: Optional[str] = None, timeout: Optional[float] = None) -> Ask:
        """Asks one member or all: an iterator over the answers as they arrive, with their verified senders.

        Bytes or a string, at most 262,080 bytes. ``to`` is an agent id; only that member is believed. ``timeout`` is in
        seconds (300 if you pass none, at most a week). The request is sent like a message and outlives the program:
        ``asked`` returns it after a restart. It is not a coroutine; await the result to know that the request was
        accepted. Awaiting or iterating raises ``too_large``, ``not_found`` if ``to`` is not a member,
        ``invalid_request``, or ``queue_full`` if 256 requests are open; iterating also raises ``ask_timeout`` if the
        asked member has not finished its answer in time, and ``queue_full`` if too many requests wait for it.
        """
        opening = self._connection.begin("ask", payload_bytes(payload), on=self._on, **ask_fields(to, timeout))
        return Ask(self, self._connection, opening)

    async def ask_one(self, payload: Payload, *, to: str, timeout: Optional[float] = None) -> Answer:
        """Asks one member and returns its answer: the first, if it gives several.

        Raises ``ask_failed`` if the member answers with an error or without a payload, ``ask_timeout``, or as ``ask``.
        """
        told, data = await self._connection.call("askOne", payload_bytes(payload), on=self._on, **ask_fields(to, timeout))
        return only_answer(told, data, self._connection.error)

    @overload
    async def ask_json(
        self, value: Any, *, to: str, timeout: Optional[float] = None, schema: None = None
    ) -> Any: ...

    @overload
    async def ask_json(
        self, value: Any, *, to: str, timeout: Optional[float] = None, schema: Schema[Value]
    ) -> Value: ...

    async def ask_json(
        self, value: Any, *, to: str, timeout: Optional[float] = None, schema: Optional[Schema[Any]] = None
    ) -> Any:
        """Asks one member with a value as JSON, and returns the value of its answer, which is JSON as well.

        With ``schema``, as in ``handle``, the value of the answer is checked. Raises ``schema_mismatch`` or
        ``invalid_json`` for the answer, and as ``ask_one``.
        """
        check = None if schema is None else self._connection.explain(lambda: check_of(schema))
        answer = await self.ask_one(value_text(value), to=to, timeout=timeout)
        if check is None:
            return answer.json()
        return self._connection.explain(lambda: fitted(check, answer.payload, "The answer"))

    async def asked(self) -> List[Ask]:
        """The open requests of this agent: not fully answered, or with unread answers."""
        told, _ = await self._connection.call("asked", on=self._on)
        return [Ask(self, self._connection, None, each) for each in told]

    @overload
    async def serve(
        self,
        handler: Callable[[ChannelRequest], Answers],
        *,
        concurrency: int = 64,
        per_asker: int = 1,
        schema: None = None,
    ) -> None: ...

    @overload
    async def serve(
        self,
        handler: Callable[[ChannelRequest, Value], Any],
        *,
        concurrency: int = 64,
        per_asker: int = 1,
        schema: Schema[Value],
    ) -> None: ...

    async def serve(
        self,
        handler: Callable[..., Any],
        *,
        concurrency: int = 64,
        per_asker: int = 1,
        schema: Optional[Schema[Any]] = None,
    ) -> None:
        """Calls a coroutine function or an asynchronous generator for each request, in a task, and sends its answers.

        If it raises a ``StaticError``, the asker gets its code and message; for any other error, ``internal_error``
        without details. If the asker cancels the request, its task is cancelled. A request is settled when the relay
        has accepted its last answer: after a crash it is served again (``redelivered``). Returns when the channel or
        the client is closed; raises the error that ended the channel.

        With ``schema``, as in ``handle``, requests and answers are JSON: the function gets the checked value as a second
        argument, and what it returns or yields is sent as JSON. A request that does not fit gets ``schema_mismatch``.
        """
        check = None if schema is None else self._connection.explain(lambda: check_of(schema))
        answers = handler if check is None else json_server(handler, check)
        await serve(self._connection, self._name, self._on, answers, concurrency, per_asker)

    @property
    def poison(self) -> PoisonMessages:
        """Messages that a handler failed on too often. At most 1,000, with 64 MiB in total, are put aside."""
        return PoisonMessages(self._connection, self._on)

    async def members(self) -> List[ListedMember]:
        """The members of the channel, including this agent."""
        told, _ = await self._connection.call("members", on=self._on)
        return [listed_member_of(member) for member in told]

    async def wait_for_member(
        self, agent_id: Optional[str] = None, *, timeout: Optional[float] = None
    ) -> ChannelMember:
        """Waits until a member is in the channel: the one with this agent id or, if none is given, any other member.

        Raises ``cancelled`` after ``timeout`` seconds, or the error that ended the channel.
        """
        fields = {} if agent_id is None else {"agentId": agent_id}
        told, _ = await self._connection.call("waitForMember", on=self._on, **fields, **limit(timeout))
        return member_of(told)

    async def receipts(self) -> List[MemberReceipt]:
        """How far the other members have processed the channel, as signed by each and verified by this agent.

        Works even while a member is offline, because the relay keeps its last receipt. The event ``ReceiptConfirmed``
        reports later ones. Without a connection, it returns the last known state.
        """
        told, _ = await self._connection.call("receipts", on=self._on)
        return [receipt_of(receipt) for receipt in told]

    async def reached(
        self,
        sent: SentMessage,
        level: Literal["delivered", "settled"] = "settled",
        *,
        by: Optional[Sequence[str]] = None,
        timeout: Optional[float] = None,
    ) -> Reached:
        """Waits until every other member has signed that it has a message, or its application has settled it.

        Works even if a member was never online together with this agent. ``by`` names the agent ids to wait for.
        Members that left, were removed, missed the message, put it aside or have receipts off are returned in
        ``unreached``, not waited for. Raises ``cancelled`` after ``timeout`` seconds, ``not_found`` if this agent sent
        no such message, or the error that ended the channel.
        """
        fields = reached_fields(sent, level, by)
        told, _ = await self._connection.call("reached", on=self._on, **fields, **limit(timeout))
        return reached_of(told)

    async def add_member(self, key_package: Union[bytes, str], *, accept_new_key: bool = False, require: Require = None) -> bytes:
        """Adds a member by a KeyPackage from an authenticated source, or by agent id, with a KeyPackage from the relay.

        Returns the Welcome, which the relay also delivers to the new member. Raises ``identity_changed`` unless
        ``accept_new_key`` (compare the fingerprint first), ``key_package_unavailable``, ``group_full`` or
        ``invalid_request``. With ``require``, the member is asked to prove one of these rules, and removed after 10 minutes
        if it has not.
        """
        (welcome,) = await self.add_members([key_package], accept_new_key=accept_new_key, require=require)
        return welcome

    async def add_members(self, members: Sequence[Union[bytes, str]], *, accept_new_key: bool = False, require: Require = None) -> List[bytes]:
        """Adds several members in as few commits as possible; returns their Welcomes in order. Like ``add_member``."""
        fields, data = members_fields(members)
        return welcomes_of(
            *await self._connection.call("addMembers", data, on=self._on, acceptNewKey=accept_new_key, **proving(require=require), **fields)
        )

    async def accept_new_key(self, identity: Union[bytes, str], agent_id: str) -> None:
        """Accepts a new key for an identity that this agent added before, in all channels of the channel's owner.

        From now on, the identity belongs to the agent with this id, and its previous agent is refused. Otherwise,
        ``add_member`` and invites refuse a new key. Compare the id with the identity's holder first. Raises
        ``invalid_request``.
        """
        await self._connection.call("acceptNewKey", identity_bytes(identity), on=self._on, agentId=agent_id)

    async def remove_member(self, agent_id: str) -> None:
        """Removes a member; only the owner may. The member cannot read any later message."""
        await self._connection.call("removeMember", on=self._on, agentId=agent_id)

    async def rotate(self) -> None:
        """Replaces this agent's keys in the group. Happens automatically every 24 hours and every 10,000 messages."""
        await self._connection.call("rotate", on=self._on)

    async def reject_commit(self, slot: int) -> None:
        """Declares a commit invalid; only the owner may. The event ``CommitSkipped`` reports its slot.

        The relay undoes its changes to the roster and bars its sender from committing until ``lift_bar``. The owner's
        agent already rejects commits that every member finds invalid, and those it cannot follow itself. Use this for
        one that it missed, for instance in an epoch that it joined by a Welcome. Raises ``not_found`` or
        ``not_allowed``.
        """
        await self._connection.call("rejectCommit", on=self._on, slot=slot)

    async def lift_bar(self, agent_id: str) -> None:
        """Lets a member commit again after one of its commits was rejected; only the owner may."""
        await self._connection.call("liftBar", on=self._on, agentId=agent_id)

    async def vouch(self, agent_id: str) -> None:
        """Vouches for a member; only the owner may.

        The relay then counts its vote on invalid commits, gives it its own allowance of commits, and keeps entries for
        it in a full channel. The owner already vouches for agents that its program adds (``add_member``) or that it
        admits with a single-use invite. The vouch ends with the membership. Raises ``not_allowed`` or ``not_found``.
        """
        await self._connection.call("vouch", on=self._on, agentId=agent_id)

    async def ownership(self) -> Ownership:
        """Who owns the channel now, and who may take it over. The event ``OwnershipChanged`` reports changes."""
        return ownership_of((await self._connection.call("ownership", on=self._on))[0])

    async def set_standby(self, agent_id: Optional[str]) -> None:
        """Names the member that may make itself the owner with ``take_over``, at any time; None for no one.

        Only the owner may, for a member that it vouches for and that has an account. That member is trusted with the
        channel as much as this agent. Removing it clears it. Raises ``not_allowed`` or ``not_found``.
        """
        fields = {} if agent_id is None else {"agentId": agent_id}
        await self._connection.call("setStandby", on=self._on, **fields)

    async def transfer(self, agent_id: str) -> None:
        """Offers the channel to a member: names it as the standby and asks it to take over.

        This agent owns and pays for the channel until that member has called ``take_over``; ``set_standby(None)``
        withdraws the offer. Raises ``not_allowed`` or ``not_found``.
        """
        await self._connection.call("transfer", on=self._on, agentId=agent_id)

    async def take_over(self) -> None:
        """Makes this agent the owner of the channel; only the standby may.

        Its account pays for the channel from then on, and must have room for it and no other channel of that name. The
        former owner becomes a member, and all invites end. Raises ``not_allowed``, ``api_key_required``,
        ``channel_exists`` or ``queue_full``.
        """
        await self._connection.call("takeOver", on=self._on)

    async def reset_roster(self) -> None:
        """Resets the relay's roster to the members of the group; only the owner may.

        Use it when commits that all members skipped have added agents to the roster that are not in the group, or
        removed members from it.
        """
        await self._connection.call("resetRoster", on=self._on)

    async def leave(self) -> None:
        """Leaves the channel, even if its group is broken. The owner cannot leave, only delete the channel."""
        inbox = await self._open()
        await self._connection.call("leave", on=inbox.on)
        inbox.clear()

    async def delete(self) -> None:
        """Deletes the channel for all members. Requires the owner's API key."""
        inbox = await self._open()
        await self._connection.call("delete", on=inbox.on)
        inbox.clear()

    async def catch_up(self) -> None:
        """Waits until everything on the relay is processed.

        Until then ``members`` and ``verify`` may be out of date. You do not need to read messages for this. Without a
        connection it waits for one. Raises ``queue_full`` if too many messages are unread to accept more, or the error
        that ended the channel.
        """
        await self._connection.call("catchUp", on=self._on)

    async def verify(self) -> str:
        """Twelve words that match for all members who have seen the same history.

        Compare them out of band after ``catch_up``, while no messages are being sent: they differ if the relay has
        shown the members different histories.
        """
        words, _ = await self._connection.call("verify", on=self._on)
        return str(words)

    async def confirmed(self) -> bool:
        """Whether the owner has sent anything since this agent joined; the event ``confirmed`` reports it.

        Until then, a former member colluding with the relay may have shown this agent an old state of the channel.
        """
        return bool((await self._connection.call("confirmed", on=self._on))[0])

    async def accept_fork(self) -> None:
        """Continues after ``fork_detected``, although a member reports another history. Compare ``verify`` first."""
        await self._connection.call("acceptFork", on=self._on)

    async def close(self) -> None:
        """Ends the iterators of this channel. The channel stays in the client and can be read again."""
        await (await self._open()).stop()

    def __repr__(self) -> str:
        return f"<Channel {self._name}>"
