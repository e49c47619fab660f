"""Helpers: the servers that the tests run against, and agents on them.

``tests/python/static_sdk.test.ts`` starts them and says where they are in ``STATIC_TEST_SERVER``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type
from unittest import mock

from static_sdk import Channel, StaticChannelManager, StaticClient, StaticError, _driver

SERVER: Dict[str, Any] = json.loads(os.environ.get("STATIC_TEST_SERVER", "{}"))
#: How long a test waits before it fails. A busy machine may need a multiple of the usual time.
SECONDS = 120
_count = itertools.count(1)


def new_name() -> str:
    """An unused channel name."""
    return f"acme/python/channel-{os.getpid()}-{next(_count)}"


def new_directory() -> str:
    """A directory for an agent."""
    return tempfile.mkdtemp(dir=SERVER["directory"])


def options(identity: bytes = b"agent", directory: Optional[str] = None, *, way: str = "quic", guest: bool = False):
    """Arguments of a client."""
    return {
        "endpoint": SERVER[way],
        "data_dir": directory or new_directory(),
        "identity": identity,
        "api_key": "" if guest else SERVER["apiKey"],
        "api_url": SERVER["apiUrl"],
        "ca": SERVER["ca"],
    }


def client(identity: bytes = b"agent", directory: Optional[str] = None, **wishes: Any) -> StaticClient:
    """A client."""
    return StaticClient(**options(identity, directory, **wishes))


def manager(identity: bytes = b"agent", directory: Optional[str] = None, **wishes: Any) -> StaticChannelManager:
    """A manager."""
    return StaticChannelManager(**options(identity, directory, **wishes))


def keep_driver() -> StaticClient:
    """For ``setUpModule``: keeps the shared driver running, so that not every test starts one."""
    keeper = client(b"keeper")
    unittest.addModuleCleanup(keeper.close)
    return keeper


@contextlib.contextmanager
def another_driver() -> Iterator[None]:
    """Clients created in this block do not share the driver of the others: their Node has another path."""
    link = os.path.join(SERVER["directory"], f"node-{os.getpid()}")
    if not os.path.lexists(link):
        os.symlink(_driver.driver_command()[0], link)
    with mock.patch.dict(os.environ, {"STATIC_NODE": link}):
        yield


def channel_of(owner: StaticClient, *others: StaticClient) -> Tuple[Channel, ...]:
    """A new channel with all given clients as members."""
    channel = owner.create_channel(new_name())
    joined = [
        other.join_channel(channel.name, channel.add_member(other.generate_key_package())) for other in others
    ]
    return (channel, *joined)


def take(channel: Channel, count: int) -> List[bytes]:
    """Reads and settles a number of payloads."""
    payloads: List[bytes] = []
    for envelope in channel.envelopes():
        payloads.append(envelope.payload)
        envelope.settle()
        if len(payloads) == count:
            break
    return payloads


def failure(call: Callable[..., Any], *words: Any, **fields: Any) -> StaticError:
    """The error of a call that must fail."""
    try:
        got = call(*words, **fields)
    except StaticError as error:
        return error
    raise AssertionError(f"No error, but {got!r}")


class Background:
    """A call in its own thread."""

    def __init__(self, call: Callable[..., Any], *words: Any) -> None:
        self._result: Any = None
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, args=(call, words))
        self._thread.start()

    def _run(self, call: Callable[..., Any], words: Any) -> None:
        try:
            self._result = call(*words)
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Returns the result of the call, or raises its exception."""
        self._thread.join(SECONDS)
        if self._thread.is_alive():
            raise AssertionError("The call still waits.")
        if self._error is not None:
            raise self._error
        return self._result


def program(text: str, **environment: str) -> "subprocess.Popen[str]":
    """Another Python program, in its own process group."""
    return subprocess.Popen(
        [sys.executable, "-B", "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def has_ended(pid: int) -> Callable[[], bool]:
    """Waits for a process, not necessarily a child, to exit; returns whether it did."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: True

    def wait() -> bool:
        try:
            poll = select.poll()
            poll.register(watched, select.POLLIN)
            return len(poll.poll(SECONDS * 1000)) > 0
        finally:
            os.close(watched)

    return wait


def driver_of(client: StaticClient) -> int:
    """The process id of a client's driver."""
    return client._connection.pid


PREFIXES = ("MLS engine error:", "transport error:", "invalid channel name:", "auth error:", "runtime error:")


def expect(test: Any, error: StaticError, kind: Type[StaticError], code: str, prefix: str = "") -> None:
    """Checks an error in both forms: a RuntimeError, with a prefix if it is the low-level client's; a class with a code."""
    test.assertIsInstance(error, RuntimeError)
    test.assertIsInstance(error, kind)
    test.assertEqual(error.code, code)
    test.assertEqual(next((known for known in PREFIXES if str(error).startswith(known)), ""), prefix, str(error))
    test.assertTrue(str(error).endswith(error.message) and not error.message.startswith(PREFIXES))
