"""The life of the driver: it exits with its client and its process, and no call waits for a dead driver."""

from __future__ import annotations

import gc
import glob
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from typing import Callable
from unittest import mock

from static_sdk import StaticClient, TransportError, _process

from . import support
from .support import Background, channel_of, client, driver_of, expect, failure, has_ended, manager, new_name

#: A client in its own program; ``begin`` reports that it has started.
PROGRAM = """
import os, sys
from tests.support import client, driver_of, has_ended, new_name, options
agent = client(b"agent", os.environ["DIRECTORY"])
channel = agent.create_channel(new_name())
def begin():
    print(driver_of(agent), flush=True)
"""


class KilledDriverTest(unittest.TestCase):
    def dies(
        self, agent: StaticClient, wait: Callable[[], object], prefix: str = "transport error:", *, stopped: bool = False
    ) -> None:
        """Kills the driver during a pending call."""
        pid = driver_of(agent)
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        calls = [Background(wait) for _ in range(3)]
        start = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        for call in calls:
            error = failure(call.result)
            expect(self, error, TransportError, "listener_died", prefix)
            self.assertIn("by signal 9", str(error))
        self.assertLess(time.monotonic() - start, support.SECONDS)
        error = failure(agent.generate_key_package)
        expect(self, error, TransportError, "listener_died", prefix)
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "a zombie")

    def test_killed_in_send(self) -> None:
        with client() as agent:
            channel = agent.create_channel(new_name())
            self.dies(agent, lambda: channel.send(bytes(200_000)), stopped=True)

    def test_killed_in_messages(self) -> None:
        with client() as agent:
            channel = agent.create_channel(new_name())
            self.dies(agent, lambda: next(channel.messages()))

    def test_killed_in_join(self) -> None:
        with manager(b"owner") as owner, manager(b"joiner") as joiner:
            name = new_name()
            owner.create(name)
            token = owner.invite(name)
            owner.close()
            self.dies(joiner.client, lambda: joiner.join_with_token(name, token), "")


class CloseTest(unittest.TestCase):
    def test_close_leaves_no_process_and_no_thread(self) -> None:
        before = set(threading.enumerate())
        agent = client()
        pid = driver_of(agent)
        channel = agent.create_channel(new_name())
        reading = Background(list, channel.messages())
        agent.close()
        self.assertEqual(reading.result(), [])
        self.assertEqual(list(channel.messages()), [])
        self.assertLessEqual(set(threading.enumerate()), before)
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "a zombie")
        agent.close()
        channel.close()
        for call in (channel.members, agent.channels, lambda: channel.send(b"")):
            expect(self, failure(call), TransportError, "closed", "transport error:")

    def test_a_constructor_that_fails_leaves_nothing(self) -> None:
        before = set(threading.enumerate())
        failure(StaticClient, "https://127.0.0.1:9", support.new_directory(), b"agent")
        self.assertLessEqual(set(threading.enumerate()), before)

    def test_an_unreferenced_client_ends_its_driver(self) -> None:
        channel = client().create_channel(new_name())
        channel.send(b"The channel holds its client.")
        pid = driver_of(channel._client)
        ended = has_ended(pid)
        del channel
        gc.collect()
        self.assertTrue(ended())

    def test_a_driver_that_hangs_is_killed(self) -> None:
        agent = client()
        os.kill(driver_of(agent), signal.SIGSTOP)
        usual, _process.CLOSE_SECONDS = _process.CLOSE_SECONDS, 0.2
        try:
            agent.close()
        finally:
            _process.CLOSE_SECONDS = usual


class ParentTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = support.new_directory()

    def start(self, text: str) -> "tuple[subprocess.Popen[str], Callable[[], bool]]":
        program = support.program(PROGRAM + text, DIRECTORY=self.directory)
        self.addCleanup(program.__exit__, None, None, None)
        self.addCleanup(program.kill)
        assert program.stdout is not None and program.stderr is not None
        line = program.stdout.readline()
        self.assertTrue(line.strip().isdigit(), line or program.stderr.read())
        return program, has_ended(int(line))

    def ends(self, text: str, status: int, words: str = "") -> None:
        """Checks that a program exits on its own, and its driver with it."""
        program, ended = self.start(text)
        _, errors = program.communicate(timeout=support.SECONDS)
        self.assertTrue(ended())
        self.assertEqual(program.returncode, status, errors)
        self.assertIn(words, errors)
        if not words:
            self.assertEqual(errors, "")

    def test_killed(self) -> None:
        temporary = support.new_directory()
        with mock.patch.dict(os.environ, {"TMPDIR": temporary}):
            program, ended = self.start("begin()\nnext(channel.messages())")
        (socket,) = glob.glob(f"{temporary}/*/driver")
        program.kill()
        self.assertTrue(ended())
        self.assertFalse(os.path.exists(os.path.dirname(socket)))

    def test_killed_while_a_forked_process_lives(self) -> None:
        program, ended = self.start(
            "if os.fork() == 0:\n    sys.stdin.read()\n    os._exit(0)\nbegin()\nnext(channel.messages())"
        )
        program.kill()
        self.assertTrue(ended())

    def test_ends_without_close(self) -> None:
        self.ends("begin()", 0)
        # Shut down cleanly: the directory is unlocked, and the agent is the same.
        with client(b"agent", self.directory) as agent:
            self.assertEqual(len(agent.channels()), 1)

    def test_ends_with_an_error_and_by_exit_in_a_loop(self) -> None:
        self.ends("begin()\nraise ValueError('my own')", 1, "my own")
        self.ends("begin()\nsys.exit(3)", 3)

    def test_ctrl_c_in_messages_closes_in_order(self) -> None:
        program, ended = self.start(
            """
import threading
pid = driver_of(agent)
try:
    with agent:
        begin()
        for payload in channel.messages():
            pass
except KeyboardInterrupt:
    status = agent._connection._transport._lease.driver.exit_code()
    print("interrupted", os.path.exists(f"/proc/{pid}"), threading.active_count(), status)
"""
        )
        # Signal the whole group, as a terminal does.
        os.killpg(program.pid, signal.SIGINT)
        printed, errors = program.communicate(timeout=support.SECONDS)
        self.assertEqual((printed, errors), ("interrupted False 1 0\n", ""))
        self.assertTrue(ended())

    def test_ctrl_c_in_a_call_leaves_a_client_that_works(self) -> None:
        program, _ = self.start(
            """
import signal
def interrupt(*_):
    raise KeyboardInterrupt
os.kill(driver_of(agent), signal.SIGSTOP)
signal.signal(signal.SIGALRM, interrupt)
begin()
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    channel.send(bytes(200_000))
except KeyboardInterrupt:
    os.kill(driver_of(agent), signal.SIGCONT)
    channel.send(b"after")
    print("sent", flush=True)
agent.close()
"""
        )
        printed, errors = program.communicate(timeout=support.SECONDS)
        self.assertEqual((printed, errors), ("sent\n", ""))


class ForkTest(unittest.TestCase):
    def test_a_forked_process_gets_an_error_and_the_parent_continues(self) -> None:
        with client(b"one") as one, client(b"two") as two:
            channel, joined = channel_of(one, two)
            with warnings.catch_warnings():
                # Newer Python versions warn about exactly what this test does.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                # Exits without running the parent's cleanups, whatever happens.
                try:
                    for call in (one.generate_key_package, lambda: channel.send(b"x"), lambda: next(joined.messages())):
                        error = failure(call)
                        assert error.code == "closed" and "fork()" in str(error), error
                    one.close()
                    os._exit(0)
                except BaseException as error:
                    print(error, file=sys.stderr)
                    os._exit(1)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            channel.send(b"still here")
            self.assertEqual(support.take(joined, 1), [b"still here"])
