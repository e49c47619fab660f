"""Many threads on one channel."""

from __future__ import annotations

import os
import threading
import unittest
from collections import Counter

from . import support
from .support import channel_of, client

MESSAGES = int(os.environ.get("STATIC_MESSAGES", "400"))
SENDERS = 4
RECEIVERS = 2


def setUpModule() -> None:
    support.keep_driver()


class ThreadsTest(unittest.TestCase):
    def test_four_threads_send_while_two_receive_exactly_once(self) -> None:
        with client(b"sender") as one, client(b"receiver", way="grpc") as other:
            channel, joined = channel_of(one, other)
            received = [[] for _ in range(RECEIVERS)]  # type: list[list[bytes]]
            left = threading.Semaphore(0)
            payloads = [[f"{lane}:{n}".encode() for n in range(MESSAGES // SENDERS)] for lane in range(SENDERS)]

            def receive(into: "list[bytes]") -> None:
                for payload in joined.messages():
                    into.append(payload)
                    left.release()

            def send(lane: "list[bytes]") -> None:
                for payload in lane:
                    channel.send(payload)

            threads = [threading.Thread(target=receive, args=(into,)) for into in received]
            threads += [threading.Thread(target=send, args=(lane,)) for lane in payloads]
            for thread in threads:
                thread.start()
            for thread in threads[RECEIVERS:]:
                thread.join()
            for _ in range(MESSAGES // SENDERS * SENDERS):
                self.assertTrue(left.acquire(timeout=support.SECONDS))
            joined.close()
            for thread in threads:
                thread.join(support.SECONDS)
            everything = [payload for into in received for payload in into]
            self.assertEqual(Counter(everything), Counter(payload for lane in payloads for payload in lane))
            # Each receiver gets its share of each sender's payloads in the order in which they were sent.
            for into in received:
                for lane in range(SENDERS):
                    numbers = [int(payload.split(b":")[1]) for payload in into if payload.startswith(b"%d:" % lane)]
                    self.assertEqual(numbers, sorted(numbers))

    def test_a_slow_reader_does_not_block_others(self) -> None:
        with client(b"sender") as one, client(b"receiver") as other:
            channel, joined = channel_of(one, other)
            for number in range(20):
                channel.send(str(number).encode())
            with joined.messages() as slow:
                self.assertEqual(next(slow), b"0")
                # The rest was read ahead, but not for this iterator.
                self.assertEqual(support.take(joined, 19), [str(number).encode() for number in range(1, 20)])

    def test_an_iterator_is_ended_from_another_thread(self) -> None:
        with client(b"alone") as one:
            channel = one.create_channel(support.new_name())
            messages = channel.messages()
            reading = support.Background(list, messages)
            messages.close()
            self.assertEqual(reading.result(), [])
            for listening in (one.events(), one.joins()):
                hearing = support.Background(list, listening)
                listening.close()
                hearing.result()
