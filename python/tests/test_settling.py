"""When a payload is settled, and when it is redelivered."""

from __future__ import annotations

import gc
import os
import signal
import unittest

from static_sdk import Channel, TransportError

from . import support
from .support import channel_of, client, driver_of, failure, new_directory


class SettlingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.sender = client(b"sender")
        self.addCleanup(self.sender.close)
        self.directory = new_directory()
        self.receiver = client(b"receiver", self.directory)
        self.addCleanup(lambda: self.receiver.close())
        self.channel, self.joined = channel_of(self.sender, self.receiver)

    def send(self, *payloads: bytes) -> None:
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

    def test_what_was_read_ahead_or_not_settled_is_given_again(self) -> None:
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

    def test_leaving_the_loop_settles_and_so_does_letting_go(self) -> None:
        self.send(b"1", b"2", b"3", b"4", b"5", b"6")
        for _ in self.joined.messages():
            break
        with self.assertRaises(ValueError):
            for _ in self.joined.messages():
                raise ValueError
        with self.joined.messages() as messages:
            next(messages)
        messages = self.joined.messages()
        next(messages)
        del messages
        gc.collect()
        self.assertEqual(support.take(self.crash(), 2), [b"5", b"6"])

    def test_the_next_receive_settles(self) -> None:
        self.receiver.close()
        with support.manager(b"receiver", self.directory) as manager:
            self.send(b"1", b"2", b"3")
            self.assertEqual([manager.receive(self.channel.name, 20) for _ in range(2)], [b"1", b"2"])
            manager.send(self.channel.name, b"written")
            os.kill(driver_of(manager.client), signal.SIGKILL)
            self.assertEqual(failure(manager.client.generate_key_package).code, "listener_died")
            error = failure(manager.receive, self.channel.name)
            support.expect(self, error, TransportError, "listener_died", "transport error:")
        self.receiver = client(b"receiver", self.directory)
        self.assertEqual(support.take(self.receiver.channel(self.channel.name), 2), [b"2", b"3"])
