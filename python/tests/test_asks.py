"""Requests and answers, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
import unittest
from typing import AsyncIterator, Iterator

from static_sdk import ChannelRequest, Envelope, StaticError, aio
from static_sdk._schema import check_of, fitted, value_text
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


class Total:
    """A model, as pydantic writes it."""

    def __init__(self, total: int) -> None:
        self.total = total

    @classmethod
    def model_validate_json(cls, data: bytes) -> "Total":
        value = json.loads(data)
        if not isinstance(value, dict) or not isinstance(value.get("total"), int):
            raise ValueError(f"bad {data!r}")
        return cls(value["total"])

    def model_dump_json(self) -> str:
        return json.dumps({"total": self.total})


class SchemaTest(unittest.TestCase):
    def test_messages_requests_and_answers_are_typed_and_what_does_not_fit_is_refused(self) -> None:
        with client(b"alice") as alice, client(b"bob") as bob:
            a, b = channel_of(alice, bob)
            a.send_json(Total(1), schema=Total)
            refused = failure(a.send_json, {"total": "secret"}, schema=Total)
            self.assertEqual((refused.code, refused.message), ("schema_mismatch", "The value does not fit the schema: ValueError."))
            for payload in (b'{"total": "two"}', b"no JSON", b'{"total": 3}'):
                a.send(payload)
            totals = []

            def handler(envelope: Envelope, value: Total) -> None:
                totals.append((envelope.sender.agent_id, value.total))
                if value.total == 3:
                    b.close()

            with self.assertLogs("static_sdk", "WARNING") as logs:
                b.handle(handler, schema=Total)
            self.assertEqual(totals, [(alice.agent_id, 1), (alice.agent_id, 3)])
            self.assertEqual(len(logs.output), 2)
            self.assertNotIn("two", "".join(logs.output))
            reasons = [(aside.attempts, aside.reason) for aside in b.poison.list()]
            self.assertEqual(reasons, [(1, "The payload does not fit the schema: ValueError."), (1, "The payload does not fit the schema: it is not JSON.")])

            def serve(request: ChannelRequest, value: Total) -> object:
                if value.total < 0:
                    return None
                return {"total": value.total + 1} if request.is_to_me else (Total(n) for n in (7, 8))

            server = threading.Thread(target=lambda: b.serve(serve, schema=Total))
            server.start()
            to = bob.agent_id
            self.assertEqual(a.ask_json(Total(5), to=to, schema=Total).total, 6)
            self.assertEqual(a.ask_json({"total": 5}, to=to), {"total": 6})
            self.assertEqual(a.ask_one('{"total": 1}', to=to, timeout=SECONDS).json(), {"total": 2})
            self.assertEqual([answer.json()["total"] for answer in a.ask('{"total": 1}')], [7, 8])
            wrong = failure(a.ask_json, {"total": "x"}, to=to)
            self.assertEqual(wrong.code, "ask_failed")
            self.assertIn("schema_mismatch: The request does not fit the schema", str(wrong))
            self.assertEqual(failure(a.ask_json, {"total": -1}, to=to).code, "ask_failed")
            self.assertEqual(failure(a.ask_one, b"x", to="ff" * 32).code, "not_found")
            for call in (lambda: a.ask_json(1, to=to, schema=5), lambda: b.handle(print, schema=5)):
                support.expect(self, failure(call), StaticError, "invalid_request", "runtime error:")
            self.assertEqual(a.asked(), [])
            b.close()
            server.join(SECONDS)
            self.assertEqual(failure(a.ask_one, b"late", to=to, timeout=0.05).code, "ask_timeout")

    @unittest.skipUnless(importlib.util.find_spec("pydantic"), "pydantic is not installed")
    def test_models_and_other_types_of_pydantic_are_schemas(self) -> None:
        from typing import Dict

        from pydantic import BaseModel, TypeAdapter

        class Order(BaseModel):
            id: int
            note: str = ""

        order = fitted(check_of(Order), b'{"id": 1}', "The payload")
        self.assertEqual((order.id, value_text(order)), (1, '{"id":1,"note":""}'))
        for schema in (Dict[str, int], TypeAdapter(Dict[str, int])):
            self.assertEqual(fitted(check_of(schema), b'{"a": 1}', "The payload"), {"a": 1})
        error = failure(fitted, check_of(Order), b'{"id": "secret", "note": 5}', "The payload")
        self.assertEqual(error.code, "schema_mismatch")
        self.assertRegex(error.message, r"^The payload does not fit the schema: id: .*; note: .*\.$")
        self.assertNotIn("secret", error.message)
        self.assertEqual(failure(check_of, "no such type").code, "invalid_request")


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

            async def total(request: ChannelRequest, value: Total) -> Total:
                return Total(value.total + 1)

            server = asyncio.create_task(b.serve(total, schema=Total))
            self.assertEqual((await a.ask_json(Total(1), to=bob.agent_id, schema=Total)).total, 2)
            self.assertEqual((await a.ask_one('{"total": 2}', to=bob.agent_id)).json(), {"total": 3})
            with self.assertRaises(StaticError) as raised:
                await a.ask_json("x", to=bob.agent_id)
            self.assertEqual(raised.exception.code, "ask_failed")
            await b.close()
            await asyncio.wait_for(server, SECONDS)
            await a.send("no JSON")
            await a.send_json(Total(4))

            async def handler(envelope: Envelope, value: Total) -> None:
                self.assertEqual(value.total, 4)
                await b.close()

            await b.handle(handler, schema=Total)
            self.assertIn("it is not JSON", (await b.poison.list())[-1].reason)
