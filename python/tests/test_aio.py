"""The client for asyncio. Its methods are those of the client for threads, and a task can be cancelled anywhere."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import threading
import unittest
import warnings
from typing import Any, AsyncIterator, Awaitable, Callable, List, Tuple
from unittest import mock

import static_sdk
from static_sdk import ChannelRequest, Envelope, StaticClient, StaticError, aio
from static_sdk.events import MembersChanged, Poison

from . import support
from .support import SECONDS, channel_of, client, driver_of, has_ended, new_directory, new_name, options

_keeper: StaticClient


def setUpModule() -> None:
    global _keeper
    _keeper = support.keep_driver()


async def failure(call: Awaitable[Any]) -> StaticError:
    """The error of a call that must fail."""
    try:
        got = await call
    except StaticError as error:
        return error
    raise AssertionError(f"No error, but {got!r}")


async def join(channel: aio.Channel, other: aio.StaticClient) -> aio.Channel:
    """Adds another client to a channel."""
    return await other.join_channel(channel.name, await channel.add_member(await other.generate_key_package()))


async def take(channel: aio.Channel, count: int) -> List[Tuple[bytes, bool]]:
    """Reads and settles a number of payloads, each with whether it was marked as redelivered."""
    taken: List[Tuple[bytes, bool]] = []
    async for envelope in channel.envelopes():
        taken.append((envelope.payload, envelope.redelivered))
        envelope.settle()
        if len(taken) == count:
            break
    return taken


def when_payload_arrives(channel: aio.Channel, do: Callable[[], object]) -> None:
    """Does something after a payload has woken its readers, before they run."""
    inbox = channel._inbox
    wake = inbox.wake

    def wake_and_do() -> None:
        wake()
        if inbox.has_ready:
            inbox.wake = wake  # type: ignore[method-assign]
            do()

    inbox.wake = wake_and_do  # type: ignore[method-assign]


class SameMethodsTest(unittest.TestCase):
    def test_every_public_method_has_the_same_parameters(self) -> None:
        for name in aio.__all__:
            other = members_of(getattr(aio, name))
            other.pop("connect", None)
            self.assertEqual(other, members_of(getattr(static_sdk, name)), name)


def members_of(kind: type) -> "dict[str, Any]":
    public = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {
        name: [str(each) for each in inspect.signature(value).parameters.values()] if callable(value) else None
        for name, value in public.items()
    }


class AioTest(unittest.IsolatedAsyncioTestCase):
    async def agent(self, identity: str, **wishes: Any) -> aio.StaticClient:
        agent = await aio.StaticClient(**{**options(), "identity": identity, **wishes})
        self.addAsyncCleanup(agent.close)
        return agent

    async def pair(self) -> Tuple[aio.Channel, aio.Channel]:
        alice, bob = await asyncio.gather(self.agent("alice"), self.agent("bob"))
        channel = await alice.create_channel(new_name())
        return channel, await join(channel, bob)

    async def test_agents_talk_and_share_the_driver_with_threads(self) -> None:
        alice, bob, carol = await asyncio.gather(self.agent("alice"), self.agent("bob"), self.agent("carol"))
        self.assertEqual({each._connection.pid for each in (alice, bob, carol)}, {driver_of(_keeper)})
        events, offers = alice.events(), carol.joins()
        channel = await alice.create_channel(new_name())
        self.assertIs(await alice.channel(channel.name), channel)
        self.assertEqual(await alice.channels(), [channel])
        welcomes = await channel.add_members([await bob.generate_key_package(), carol.agent_id])
        joined = await bob.join_channel(channel.name, welcomes[0], owner=alice.fingerprint())
        offer = await offers.__anext__()
        also = await offer.accept()
        changed = [event async for event in first(events, MembersChanged)]
        self.assertEqual(set(changed[0].added), {bob.agent_id, carol.agent_id})
        member = await joined.wait_for_member(carol.agent_id, timeout=SECONDS)
        self.assertEqual((member.identity, len(await also.members())), (b"carol", 3))

        receipt = await channel.send_json({"wörter": 1})
        self.assertIsNone(await channel.send("text"))
        await channel.send(bytearray(b"bytes"))
        async with joined.envelopes() as envelopes:
            envelope = await envelopes.__anext__()
            self.assertEqual((envelope.json(), envelope.index), ({"wörter": 1}, receipt.index))
            self.assertEqual([(await envelopes.__anext__()).text() for _ in range(2)], ["text", "bytes"])
        await also.catch_up()
        self.assertEqual(await also.verify(), await channel.verify())
        self.assertEqual((await failure(alice.create_channel("bad"))).code, "channel_error")
        await channel.remove_member(bob.agent_id)
        self.assertEqual((await failure(take(joined, 2))).code, "removed")
        await asyncio.gather(events.close(), offers.close())
        self.assertEqual([event async for event in events], [])

    async def test_a_channel_and_a_request_need_no_await(self) -> None:
        alice, bob = await asyncio.gather(self.agent("alice"), self.agent("bob"))
        opened = await alice.create_channel(new_name())
        await join(opened, bob)

        async def answer(request: ChannelRequest) -> AsyncIterator[bytes]:
            yield b"one"
            yield request.payload

        serving = asyncio.create_task(bob.channel(opened.name).serve(answer))
        channel = alice.channel(opened.name)
        for read in (lambda: channel.id, lambda: channel.owner, lambda: channel.ask("all").deadline):
            with self.assertRaises(static_sdk.StaticError) as raised:
                read()
            self.assertEqual(raised.exception.code, "invalid_request")
        answers = [each.text() async for each in channel.ask("q", to=bob.agent_id)]
        self.assertEqual(answers, ["one", "q"])
        ask = await channel.ask("again", to=bob.agent_id)
        self.assertEqual((len(ask.id), ask.to), (32, bob.agent_id))
        await ask.close()
        await channel.send("hello")
        async for payload in bob.channel(opened.name).messages():
            self.assertEqual(payload, b"hello")
            break
        # It settles what the other object of this channel has read.
        self.assertEqual(await take(bob.channel(opened.name), 1), [(b"hello", True)])
        self.assertIs(await channel, opened)
        self.assertEqual((channel.id, channel.owner), (opened.id, opened.owner))
        for missing, code in ((alice.channel(new_name()), "not_found"), (alice.channel("no name"), "channel_error")):
            waits = (missing.send("x"), missing.members(), missing._find(), missing.ask("x")._accepted(), take(missing, 1))
            for wait in (*waits, missing.ask("x").__anext__(), missing.close()):
                support.expect(self, await failure(wait), static_sdk.ChannelError, code)
        await bob.channel(opened.name).close()
        await asyncio.wait_for(serving, SECONDS)
        self.assertIs(await bob.join_with_link(await alice.invite_link(opened.name)), await bob.channel(opened.name))
        self.assertEqual([invite.uses for invite in await alice.invites(opened.name)], [0])

    async def test_a_manager_invites_and_receives(self) -> None:
        async with aio.StaticChannelManager(**options(b"owner")) as owner, aio.StaticChannelManager(
            **options(b"guest", guest=True, way="grpc")
        ) as guest:
            name = new_name()
            await owner.create(name)
            token = await owner.invite(name)
            await guest.join_with_token(name, token)
            self.assertEqual([invite.state for invite in await owner.invites(name)], ["used_up"])
            await owner.revoke_invite(token)
            self.assertIsNone(await owner.receive(name, 0))
            # A call that is cancelled when a payload has just arrived does not take it.
            receiving = asyncio.create_task(owner.receive(name, SECONDS))
            when_payload_arrives(await owner.client.channel(name), receiving.cancel)
            await guest.send(name, "1")
            with self.assertRaises(asyncio.CancelledError):
                await receiving
            await guest.send(name, b"2")
            self.assertEqual(await owner.receive(name, SECONDS), b"1")
            self.assertEqual([each.payload for each in await owner.receive_envelopes(name, SECONDS)][0], b"2")
            self.assertIsNone(owner.died)
        self.assertEqual((await failure(owner.channels())).code, "closed")

    async def test_a_cancelled_reader_neither_settles_nor_loses_a_message(self) -> None:
        channel, joined = await self.pair()
        messages = joined.messages()
        reading = asyncio.create_task(messages.__anext__())
        when_payload_arrives(joined, reading.cancel)
        await channel.send(b"1")
        with self.assertRaises(asyncio.CancelledError):
            await reading
        # The same iterator goes on; leaving it gives back what it has got.
        self.assertEqual(await messages.__anext__(), b"1")
        waiting = asyncio.create_task(take(joined, 1))
        await asyncio.sleep(0)
        await messages.close()
        self.assertEqual(await waiting, [(b"1", True)])
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(joined.messages().__anext__(), 0.01)
        # Cancelled a moment later, it has already returned.
        reading = asyncio.create_task(joined.messages().__anext__())
        when_payload_arrives(joined, lambda: asyncio.get_running_loop().call_soon(reading.cancel))
        await channel.send(b"2")
        self.assertEqual(await reading, b"2")
        self.assertEqual(await take(joined, 1), [(b"2", True)])

    async def test_a_cancelled_send_leaves_the_connection_in_order(self) -> None:
        channel, joined = await self.pair()
        pid = driver_of(_keeper)
        os.kill(pid, signal.SIGSTOP)
        try:
            sending = [asyncio.create_task(channel.send(f"cancelled {n}")) for n in range(5)]
            waiting = asyncio.create_task(joined.wait_for_member("00" * 32))
            await asyncio.sleep(0)
            for task in (*sending, waiting):
                task.cancel()
            done = await asyncio.gather(*sending, waiting, return_exceptions=True)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual({type(each) for each in done}, {asyncio.CancelledError})
        await asyncio.gather(*(channel.send(f"sent {n}") for n in range(3)))
        received: List[str] = []
        async for envelope in joined.envelopes():
            received.append(envelope.text())
            if len([text for text in received if text.startswith("sent")]) == 3:
                break
        self.assertEqual(sorted(received), sorted(set(received)))
        # Its waits ended in the driver, too: nothing is pending there but what is pending here.
        self.assertEqual(joined._connection._calls, {})
        self.assertEqual(channel._connection._calls, {})

    async def test_a_handler_is_retried_put_aside_and_cancelled(self) -> None:
        channel, joined = await self.pair()
        events = joined._client.events()  # type: ignore[attr-defined]
        for text in ("bad", "good", "slow"):
            await channel.send(text)
        calls: List[str] = []
        slow = asyncio.Event()

        async def handler(envelope: Envelope) -> None:
            calls.append(envelope.text())
            if calls[-1] == "bad":
                raise ValueError("cannot")
            if calls[-1] == "slow":
                slow.set()
                await asyncio.Event().wait()

        handling = asyncio.create_task(joined.handle(handler, attempts=1))
        await slow.wait()
        self.assertEqual([event.reason async for event in first(events, Poison)], ["ValueError: cannot"])
        handling.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await handling
        (bad, cancelled) = await joined.poison.list()
        self.assertEqual((calls, bad.payload, cancelled.payload), (["bad", "good", "slow"], b"bad", b"slow"))
        closing: "List[asyncio.Task[None]]" = []

        def stop(envelope: Envelope) -> None:
            calls.append(envelope.text())
            closing.append(asyncio.create_task(joined.close()))

        # What an iterator has read ahead, and what it asked for, does not wait for another iterator.
        await joined.poison.drop(bad.message_id)
        await channel.send("read")
        self.assertEqual(await take(joined, 1), [(b"read", False)])
        await channel.send("last")
        await joined.handle(stop)
        await closing[0]
        self.assertEqual(calls[-1], "last")
        await joined.poison.retry(cancelled.message_id)
        self.assertEqual(await take(joined, 1), [(b"slow", True)])

    async def test_an_iterator_over_events_that_is_left_ends_in_the_driver(self) -> None:
        agent = await self.agent("reader")
        connection = agent._connection
        events = agent.events()
        await events._opening.wait()
        task = asyncio.ensure_future(events.__anext__())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        del task
        written: List[bytes] = []
        with mock.patch.object(connection, "_write", written.append):
            del events
            gc.collect()
        self.assertIn(b'"do":"return"', b"".join(piece for piece in written if isinstance(piece, bytes)))

    async def test_a_handler_that_fails_with_an_endless_text_puts_its_message_aside(self) -> None:
        channel, joined = await self.pair()
        await channel.send(b"\x01" * 262_144)
        await channel.send("last")
        closing: "List[asyncio.Task[None]]" = []

        async def handler(envelope: Envelope) -> None:
            if envelope.payload != b"last":
                raise ValueError(f"unknown task {envelope.text()}")
            closing.append(asyncio.create_task(joined.close()))

        await joined.handle(handler, attempts=1)
        await closing[0]
        self.assertEqual([len(message.reason) for message in await joined.poison.list()], [1000])

    async def test_closing_the_client_of_one_loop_does_not_disturb_the_others(self) -> None:
        here = await self.agent("here")
        is_open, may_end = threading.Event(), threading.Event()

        async def elsewhere() -> int:
            async with aio.StaticClient(**options(b"elsewhere")) as other:
                self.assertEqual((await failure(in_this_loop(here))).code, "invalid_request")
                is_open.set()
                await asyncio.get_running_loop().run_in_executor(None, may_end.wait)
                await other.generate_key_package()
                return other._connection.pid

        thread = support.Background(asyncio.run, elsewhere())
        await asyncio.get_running_loop().run_in_executor(None, is_open.wait)
        reading = asyncio.create_task(take(await here.create_channel(new_name()), 1))
        await asyncio.sleep(0)
        await here.close()
        self.assertEqual(await reading, [])
        may_end.set()
        pid = await asyncio.get_running_loop().run_in_executor(None, thread.result)
        self.assertEqual(pid, driver_of(_keeper))
        _keeper.generate_key_package()

    async def test_a_client_that_cannot_connect_leaves_nothing(self) -> None:
        error = await failure(self.agent("agent", endpoint="https://127.0.0.1:9"))
        self.assertEqual((error.code, error.retryable), ("connection_error", True))
        connecting = asyncio.create_task(self.agent("agent", endpoint="https://127.0.0.1:9", wait=True))
        connecting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await connecting
        unopened = aio.StaticClient(**options())
        self.assertEqual((await failure(in_this_loop(unopened))).code, "closed")
        await unopened.close()
        await unopened.connect()
        self.assertEqual((await failure(unopened.connect())).code, "invalid_request")
        await unopened.close()
        # Only the keeper is left.
        self.assertEqual(len(_keeper._connection._transport._lease.driver.leases), 1)


async def in_this_loop(agent: aio.StaticClient) -> bytes:
    return await agent.generate_key_package()


async def first(events: Any, kind: type) -> Any:
    """The first event of a kind."""
    async for event in events:
        if isinstance(event, kind):
            yield event
            return


class DriverTest(unittest.TestCase):
    """Its own driver, which these tests end."""

    def setUp(self) -> None:
        another = support.another_driver()
        another.__enter__()
        self.addCleanup(another.__exit__, None, None, None)

    def test_a_driver_that_dies_ends_all_its_clients_and_the_next_one_starts_another(self) -> None:
        async def main() -> int:
            one, two = await asyncio.gather(aio.StaticClient(**options()), aio.StaticClient(**options()))
            three = client()
            pid = driver_of(three)
            channel = await one.create_channel(new_name())
            waiting = [
                asyncio.create_task(failure(channel.messages().__anext__())),
                asyncio.create_task(failure(two.joins().__anext__())),
            ]
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            errors = await asyncio.gather(*waiting)
            errors.append(support.failure(three.generate_key_package))
            for error, prefix in zip(errors, ("", "", "transport error:")):
                support.expect(self, error, static_sdk.TransportError, "listener_died", prefix)
                self.assertIn("by signal 9", str(error))
            self.assertFalse(os.path.exists(f"/proc/{pid}"), "a zombie")
            async with aio.StaticClient(**options()) as four:
                await four.generate_key_package()
                self.assertNotEqual(four._connection.pid, pid)
                await asyncio.gather(one.close(), two.close())
                three.close()
                await four.generate_key_package()
                return four._connection.pid

        pid = asyncio.run(main())
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "the last client has ended it")

    def test_an_event_loop_that_ends_leaves_no_driver_and_a_hung_one_is_killed(self) -> None:
        async def forget() -> int:
            agent = await aio.StaticClient(**options())
            return agent._connection.pid

        with warnings.catch_warnings():
            # That the program forgot to close it.
            warnings.simplefilter("ignore", ResourceWarning)
            pid = asyncio.run(forget())
            ended = has_ended(pid)
            gc.collect()
            self.assertTrue(ended())

        async def hang() -> int:
            agent = await aio.StaticClient(**options())
            os.kill(agent._connection.pid, signal.SIGSTOP)
            usual, static_sdk._process.CLOSE_SECONDS = static_sdk._process.CLOSE_SECONDS, 0.2
            try:
                await agent.close()
            finally:
                static_sdk._process.CLOSE_SECONDS = usual
            return agent._connection.pid

        self.assertFalse(os.path.exists(f"/proc/{asyncio.run(hang())}"), "a zombie")

    def test_a_forked_process_gets_an_error_and_its_own_driver(self) -> None:
        async def main() -> None:
            async with aio.StaticClient(**options()) as agent:
                channel = await agent.create_channel(new_name())
                mine, theirs = os.pipe()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    child = os.fork()
                if child == 0:
                    os._exit(in_child(agent, theirs))
                os.close(theirs)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
                other = int(os.read(mine, 100))
                os.close(mine)
                self.assertNotEqual(other, agent._connection.pid)
                await channel.send(b"still here")

        def in_child(agent: aio.StaticClient, answer: int) -> int:
            # Without the parent's cleanups, whatever happens.
            try:
                error = support.failure(agent._connection.check)
                assert error.code == "closed" and "fork()" in str(error), error
                with client() as own:
                    own.generate_key_package()
                    os.write(answer, str(driver_of(own)).encode())
                assert not os.path.exists(f"/proc/{driver_of(own)}")
                return 0
            except BaseException as error:
                os.write(2, repr(error).encode())
                return 1

        asyncio.run(main())


class SharedTest(unittest.TestCase):
    """What clients that share a driver must not share."""

    def test_directories_and_variables_are_those_of_the_program_now(self) -> None:
        before = os.getcwd()
        home = new_directory()
        os.chdir(home)
        try:
            with client(b"relative", "agent") as one, StaticClient(**options(b"other")) as other:
                channel, joined = channel_of(one, other)
                channel.send(b"hello")
                self.assertEqual(support.take(joined, 1), [b"hello"])
                self.assertEqual(driver_of(one), driver_of(_keeper))
        finally:
            os.chdir(before)
        self.assertTrue(os.path.isdir(os.path.join(home, "agent")))
