"""When a payload is settled, and when it is redelivered."""

from __future__ import annotations

import gc
import os
import signal
import unittest
from typing import List, Union
from unittest import mock

from static_sdk import Channel, Envelope, TransportError

from . import support
from .support import channel_of, client, driver_of, failure, new_directory


class SettlingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        # Keeps the driver of the senders running.
        with support.another_driver():
            keeper = client(b"keeper")
        cls.addClassCleanup(keeper.close)

    def setUp(self) -> None:
        # The tests kill the driver of the receiver.
        with support.another_driver():
            self.sender = client(b"sender")
        self.addCleanup(self.sender.close)
        self.directory = new_directory()
        self.receiver = client(b"receiver", self.directory)
        self.addCleanup(lambda: self.receiver.close())
        self.channel, self.joined = channel_of(self.sender, self.receiver)

    def send(self, *payloads: Union[bytes, str]) -> None:
        for payload in payloads:
            self.channel.send(payload)

    def crash(self) -> Channel:
        """Kills the driver and opens the channel again."""
        # Once this returns, the driver has processed and stored everything sent before.
        self.joined.send(b"written")
        os.kill(driver_of(self.receiver), signal.SIGKILL)
        support.expect(
            self, failure(self.receiver.generate_key_package), TransportError, "listener_died", "transport error:"
        )
        # Payloads that were read ahead are not returned now either: they could not be settled.
        self.assertEqual(failure(next, self.joined.messages()).code, "listener_died")
        self.receiver.close()
        self.receiver = client(b"receiver", self.directory)
        self.joined = self.receiver.channel(self.channel.name)
        # Payloads sent from now on have never been delivered.
        self.joined.catch_up()
        return self.joined

    def test_a_sender_learns_who_has_received_and_settled_a_message(self) -> None:
        sent = self.channel.send_envelope(b"1")
        reached = self.channel.reached(sent, "delivered", timeout=support.SECONDS)
        self.assertEqual((reached.reached, reached.unreached), ([self.receiver.agent_id], []))
        late = failure(self.channel.reached, sent, timeout=0.01)
        self.assertEqual(late.code, "cancelled")
        self.assertIn(f"Missing: receiver ({self.receiver.agent_id[:8]}…)", str(late))
        self.take(self.joined, 1)
        self.assertEqual(self.channel.reached(sent, timeout=support.SECONDS).reached, [self.receiver.agent_id])
        (receipt,) = self.channel.receipts()
        self.assertEqual((receipt.agent_id, receipt.mode), (self.receiver.agent_id, "settled"))
        self.assertGreaterEqual(receipt.settled, sent.index)
        stranger = self.channel.reached(sent, by=["ff" * 32], timeout=support.SECONDS)
        self.assertEqual([(found.agent_id, found.reason) for found in stranger.unreached], [("ff" * 32, "not_member")])

    def test_payloads_read_ahead_or_not_settled_are_delivered_again(self) -> None:
        self.send(b"1", b"2", b"3", b"4", b"5")
        messages = self.joined.messages()
        self.assertEqual([next(messages), next(messages), next(messages)], [b"1", b"2", b"3"])
        joined = self.crash()
        self.send(b"6")
        given = []
        for envelope in joined.envelopes():
            given.append((envelope.payload, envelope.redelivered))
            if envelope.payload == b"6":
                break
        self.assertEqual(given, [(b"3", True), (b"4", True), (b"5", True), (b"6", False)])

    def reopen(self) -> Channel:
        """Closes the client in order and opens the channel again."""
        self.receiver.close()
        self.receiver = client(b"receiver", self.directory)
        self.joined = self.receiver.channel(self.channel.name)
        return self.joined

    def test_what_a_killed_program_may_have_seen_is_redelivered(self) -> None:
        self.send(b"1")
        self.assertEqual(next(self.joined.envelopes()).payload, b"1")
        # This is what the driver sees if the program is killed.
        self.receiver._connection.abort()
        (envelope,) = self.take(self.reopen(), 1)
        self.assertEqual((envelope.payload, envelope.redelivered), (b"1", True))

    def test_nothing_is_read_once_the_client_has_said_what_was_read(self) -> None:
        self.send(b"1", b"2")
        envelopes = self.joined.envelopes()
        self.assertEqual(next(envelopes).payload, b"1")
        # As if another thread closed the client.
        self.receiver._connection._begin_closing()
        self.assertIsNone(next(envelopes, None))
        (envelope,) = self.take(self.reopen(), 1)
        self.assertEqual((envelope.payload, envelope.redelivered), (b"2", False))

    def test_leaving_the_loop_settles_nothing_and_the_payload_is_redelivered(self) -> None:
        self.send(b"1", b"2", b"3")
        with self.assertRaises(ValueError):
            for _ in self.joined.messages():
                raise ValueError
        for payload in self.joined.messages():
            self.assertEqual(payload, b"1")
            break
        with self.joined.envelopes() as envelopes:
            envelope = next(envelopes)
            self.assertEqual((envelope.payload, envelope.redelivered), (b"1", True))
            # Asking for the next one settles.
            self.assertEqual(next(envelopes).payload, b"2")
        gc.collect()
        given = [(envelope.payload, envelope.redelivered) for envelope in self.take(self.reopen(), 2)]
        self.assertEqual(given, [(b"2", True), (b"3", False)])

    def take(self, channel: Channel, count: int) -> List[Envelope]:
        envelopes = []
        for envelope in channel.envelopes():
            envelopes.append(envelope)
            envelope.settle()
            if len(envelopes) == count:
                break
        return envelopes

    def test_an_envelope_can_be_settled_manually_even_after_the_loop(self) -> None:
        self.send(b"1", b"2", b"3")
        kept = None
        for envelope in self.joined.envelopes():
            kept = envelope
            break
        assert kept is not None
        kept.settle()
        kept.settle()
        self.assertEqual(support.take(self.joined, 1), [b"2"])
        self.assertEqual(support.take(self.reopen(), 1), [b"3"])

    def test_messages_sent_while_the_agent_was_offline_are_not_marked(self) -> None:
        self.send(b"1")
        self.assertEqual(support.take(self.joined, 1), [b"1"])
        self.receiver.close()
        self.send(b"2", b"3")
        self.receiver = client(b"receiver", self.directory)
        envelopes = self.take(self.receiver.channel(self.channel.name), 2)
        self.assertEqual([envelope.redelivered for envelope in envelopes], [False, False])

    def test_a_failing_handler_is_retried_and_the_message_is_put_aside(self) -> None:
        self.send("bad", "good", "last")
        self.channel.send_json({"task": 1})
        calls = []

        def handler(envelope: Envelope) -> None:
            calls.append(envelope.text())
            if envelope.text() == "bad":
                raise ValueError("cannot")
            if calls[-1].startswith("{"):
                self.assertEqual(envelope.json(), {"task": 1})
                self.joined.close()

        self.joined.handle(handler, attempts=1)
        self.assertEqual(calls, ["bad", "good", "last", '{"task":1}'])
        (put_aside,) = self.joined.poison.list()
        self.assertEqual(
            (put_aside.payload, put_aside.attempts, put_aside.reason, put_aside.sender.identity),
            (b"bad", 1, "ValueError: cannot", b"sender"),
        )
        self.joined.poison.retry(put_aside.message_id)
        self.assertEqual(failure(self.joined.poison.drop, put_aside.message_id).code, "not_found")
        self.assertEqual(support.take(self.joined, 1), [b"bad"])
        self.assertEqual(self.joined.poison.list(), [])

    def test_an_iterator_over_events_that_is_left_ends_in_the_driver(self) -> None:
        events = self.receiver.events()
        written: List[bytes] = []
        with mock.patch.object(self.receiver._connection, "_write", written.append):
            del events
            gc.collect()
        self.assertIn(b'"do":"return"', b"".join(piece for piece in written if isinstance(piece, bytes)))

    def test_a_handler_that_fails_with_an_endless_text_or_none_puts_its_message_aside(self) -> None:
        self.send(b"\x01" * 262_144, "mute", "last")

        class Mute(Exception):
            def __str__(self) -> str:
                raise ValueError("no text")

        def handler(envelope: Envelope) -> None:
            if envelope.payload == b"mute":
                raise Mute()
            if envelope.payload != b"last":
                # As a program does that looks up what it was sent.
                raise ValueError(f"unknown task {envelope.text()}")
            self.joined.close()

        self.joined.handle(handler, attempts=1)
        (endless, mute) = self.joined.poison.list()
        self.assertTrue(endless.reason.startswith("ValueError: unknown task \x01"))
        self.assertEqual((len(endless.reason), mute.reason), (1000, "Mute"))

    def test_a_handler_gets_what_an_iterator_has_left_and_read_ahead(self) -> None:
        self.send("1", "2", "3")
        for payload in self.joined.messages():
            self.assertEqual(payload, b"1")
            break
        calls = []

        def handler(envelope: Envelope) -> None:
            calls.append((envelope.text(), envelope.redelivered))
            if envelope.text() == "4":
                self.joined.close()

        handling = support.Background(self.joined.handle, handler)
        self.send("4")
        handling.result()
        self.assertEqual(calls, [("1", True), ("2", False), ("3", False), ("4", False)])

    def test_an_interrupted_handler_leaves_its_message(self) -> None:
        self.send(b"1", b"2")

        def handler(envelope: Envelope) -> None:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.joined.handle(handler)
        self.assertEqual(support.take(self.joined, 2), [b"1", b"2"])

    def test_an_orderly_close_settles_what_receive_returned(self) -> None:
        self.receiver.close()
        with support.manager(b"receiver", self.directory) as manager:
            self.send(b"1", b"2")
            self.assertEqual(manager.receive(self.channel.name, 20), b"1")
        self.receiver = client(b"receiver", self.directory)
        (envelope,) = self.take(self.receiver.channel(self.channel.name), 1)
        # It was read ahead, and never returned.
        self.assertEqual((envelope.payload, envelope.redelivered), (b"2", False))

    def test_the_next_receive_settles(self) -> None:
        self.receiver.close()
        with support.manager(b"receiver", self.directory) as manager:
            self.send(b"1", b"2", b"3")
            self.assertEqual([manager.receive(self.channel.name, 20) for _ in range(2)], [b"1", b"2"])
            manager.send(self.channel.name, b"written")
            os.kill(driver_of(manager.client), signal.SIGKILL)
            self.assertEqual(failure(manager.client.generate_key_package).code, "listener_died")
            error = failure(manager.receive, self.channel.name)
            support.expect(self, error, TransportError, "listener_died")
        self.receiver = client(b"receiver", self.directory)
        self.assertEqual(support.take(self.receiver.channel(self.channel.name), 2), [b"2", b"3"])
