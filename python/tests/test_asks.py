"""Requests and answers, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import threading
import unittest
from typing import AsyncIterator, Iterator

from static_sdk import ChannelRequest, StaticError, aio
from static_sdk.errors import make_error

from . import support
from .support import SECONDS, channel_of, client, failure, new_directory, options


def setUpModule() -> None:
    support.keep_driver()


def answers(request: ChannelRequest) -> Iterator[str]:
    """Answers twice, or fails as the request says."""
    if request.text() == "fail":
        raise make_error("not_allowed", "No.")
    if request.text() == "break":
        raise ValueError("secret")
    yield f"one {request.text()}"
    yield f"two {request.text()}"


class AsksTest(unittest.TestCase):
    def test_a_member_answers_and_its_errors_have_codes(self) -> None:
        with client(b"alice") as alice, client(b"bob") as bob:
            a, b = channel_of(alice, bob)
            server = threading.Thread(target=b.serve, args=(answers,))
            server.start()
            ask = a.ask("hello", to=bob.agent_id, timeout=SECONDS)
            self.assertEqual((ask.to, len(ask.id)), (bob.agent_id, 32))
            got = list(ask)
            self.assertEqual([answer.text() for answer in got], ["one hello", "two hello"])
            self.assertEqual({answer.sender.agent_id for answer in got}, {bob.agent_id})
            self.assertEqual(a.asked(), [])

            (refused,) = a.ask("fail", to=bob.agent_id)
            self.assertEqual(refused.error_code, "not_allowed")
            self.assertEqual(failure(refused.text).code, "ask_failed")
            with self.assertLogs("static_sdk", "WARNING") as logs:
                (broken,) = a.ask("break", to=bob.agent_id)
                # Nobody reads bob's events.
                self.assertEqual(len(logs.output), 1)
            self.assertRegex(logs.output[0], r"(?s)The handler of `serve` failed on request \d+ .*, in answers\n.*ValueError: secret$")
            self.assertEqual(broken.error_code, "internal_error")
            self.assertNotIn("secret", str(broken.error))
            # All members: here there is one.
            self.assertEqual([answer.text() for answer in a.ask("all")], ["one all", "two all"])

            self.assertEqual(failure(a.ask, b"", to="ff" * 32).code, "not_found")
            b.close()
            server.join(SECONDS)
            self.assertFalse(server.is_alive())
            late = a.ask("late", to=bob.agent_id, timeout=0.01)
            self.assertEqual(failure(next, late).code, "ask_timeout")

    def test_an_open_request_is_found_after_a_restart(self) -> None:
        directory = new_directory()
        with client(b"bob") as bob:
            with client(b"alice", directory) as alice:
                a, b = channel_of(alice, bob)
                asked = a.ask("q", to=bob.agent_id, timeout=SECONDS)
                a.send("behind it")
            done = threading.Event()

            def only(request: ChannelRequest) -> bytes:
                done.set()
                return b"answer"

            server = threading.Thread(target=b.serve, args=(only,))
            server.start()
            self.assertTrue(done.wait(SECONDS))
            with client(b"alice", directory) as alice:
                (again,) = alice.channel(a.name).asked()
                self.assertEqual((again.id, again.deadline), (asked.id, asked.deadline))
                self.assertEqual([answer.payload for answer in again], [b"answer"])
            b.close()
            server.join(SECONDS)


class AioAsksTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_member_answers_and_a_cancelled_request_cancels_its_task(self) -> None:
        async with aio.StaticClient(**options(b"alice")) as alice, aio.StaticClient(**options(b"bob")) as bob:
            a = await alice.create_channel(support.new_name())
            b = await bob.join_channel(a.name, await a.add_member(await bob.generate_key_package()))
            cancelled = asyncio.Event()

            async def answer(request: ChannelRequest) -> AsyncIterator[bytes]:
                yield b"one"
                if request.text() != "wait":
                    yield b"two"
                    return
                try:
                    await asyncio.sleep(SECONDS)
                finally:
                    if request.is_cancelled:
                        cancelled.set()

            server = asyncio.create_task(b.serve(answer))
            ask = a.ask("q", to=bob.agent_id)
            self.assertEqual([answer.payload async for answer in ask], [b"one", b"two"])
            async with a.ask("wait", to=bob.agent_id) as waiting:
                self.assertEqual((await waiting.__anext__()).payload, b"one")
                # A wait that is given up loses no answer.
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(waiting.__anext__(), 0.01)
            await asyncio.wait_for(cancelled.wait(), SECONDS)
            server.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await server

            async def one(request: ChannelRequest) -> str:
                raise make_error("not_found", f"No {request.text()}.")

            server = asyncio.create_task(b.serve(one))
            async for refused in a.ask("order", to=bob.agent_id):
                self.assertIsInstance(refused.error, StaticError)
                self.assertEqual(refused.error_code, "not_found")
            sent = await a.send_envelope(b"done")
            reached = await a.reached(sent, "delivered", timeout=SECONDS)
            self.assertEqual((reached.reached, reached.unreached), ([bob.agent_id], []))
            (receipt,) = await a.receipts()
            self.assertGreaterEqual(receipt.delivered, sent.index)
            await b.close()
            await asyncio.wait_for(server, SECONDS)
