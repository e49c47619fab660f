"""The options of clients beyond the seed's: the same as in TypeScript."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import unittest
from typing import Iterator
from unittest import mock
from urllib.parse import urlsplit

from static_sdk import KeyFile, Passphrase, StaticClient, StaticError, aio
from static_sdk.events import Connected

from . import support
from .support import SECONDS, SERVER, client, expect, failure, new_directory, new_name, options


def setUpModule() -> None:
    support.keep_driver()


class AccountTest(unittest.TestCase):
    def test_an_account_on_this_machine_is_chosen_by_name(self) -> None:
        home = new_directory()
        saved = os.path.join(home, ".config", "static", "accounts", "work")
        with mock.patch.dict(os.environ, {"HOME": home, "STATIC_API_KEY": "sk_live_of_another_account"}):
            for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
                os.environ.pop(name, None)
            error = failure(StaticClient, data_dir=new_directory(), identity="alice", account="work")
            self.assertEqual(error.code, "not_found")
            os.makedirs(saved, mode=0o700)
            file = {"api_key": SERVER["apiKey"], "api_url": SERVER["apiUrl"], "relay": SERVER["quic"]}
            with open(os.open(os.path.join(saved, "credentials.json"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                json.dump({**file, "ca": SERVER["ca"]}, out)
            with StaticClient(data_dir=new_directory(), identity="alice", account="work") as alice:
                alice.create_channel(new_name())
            os.environ["STATIC_ACCOUNT"] = "work"
            with StaticClient(data_dir=new_directory(), identity="alice") as alice:
                alice.create_channel(new_name())


class Gate:
    """A port on which the relay can be reached over gRPC once the gate is open; until then nothing listens there."""

    def __init__(self) -> None:
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self.endpoint = f"https://localhost:{self._server.getsockname()[1]}"

    def open(self) -> None:
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        relay = urlsplit(SERVER["grpc"])
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection((relay.hostname, relay.port))
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            data = source.recv(65536)
            if not data:
                break
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@contextlib.contextmanager
def gate() -> Iterator[Gate]:
    gate = Gate()
    try:
        yield gate
    finally:
        gate.close()


class WaitTest(unittest.TestCase):
    def test_a_client_that_waits_starts_while_the_relay_is_down(self) -> None:
        with gate() as down:
            there = {**options(), "endpoint": down.endpoint}
            expect(self, failure(StaticClient, **there), StaticError, "connection_error", "transport error:")
            with StaticClient(**there, wait=True) as agent, agent.events() as events:
                self.assertEqual(agent.channels(), [])
                creating = support.Background(agent.create_channel, new_name())
                down.open()
                self.assertEqual([event.way for event in events_until_connected(events)], ["grpc"])
                creating.result().send(b"sent")

    def test_the_same_with_asyncio(self) -> None:
        async def main() -> None:
            with gate() as down:
                async with aio.StaticClient(**{**options(), "endpoint": down.endpoint}, wait=True) as agent:
                    creating = asyncio.create_task(agent.create_channel(new_name()))
                    down.open()
                    channel = await asyncio.wait_for(creating, SECONDS)
                    await channel.send(b"sent")

        asyncio.run(main())


def events_until_connected(events: "Iterator[object]") -> "Iterator[Connected]":
    for event in events:
        if isinstance(event, Connected):
            yield event
            return


class OptionsTest(unittest.TestCase):
    def refused(self, **fields: object) -> StaticError:
        error = failure(StaticClient, **{**options(), **fields})
        expect(self, error, StaticError, "invalid_request", "runtime error:")
        return error

    def test_a_passphrase_or_a_key_file_unlocks_the_agent(self) -> None:
        for key in (Passphrase("correct horse"), KeyFile(f"{new_directory()}/key")):
            there = options(b"agent", new_directory())
            with StaticClient(**there, key=key) as agent:
                known = agent.agent_id
            self.assertEqual(failure(StaticClient, **there, key=Passphrase("wrong")).code, "store_key_wrong")
            with StaticClient(**there, key=key) as agent:
                self.assertEqual(agent.agent_id, known)
        self.assertNotIn("horse", repr(Passphrase("correct horse")))
        with self.assertRaises(TypeError):
            StaticClient(**options(), key="words")  # type: ignore[arg-type]

    def test_the_other_options_reach_the_agent(self) -> None:
        endpoint = f"https://127.0.0.1:{urlsplit(SERVER['grpc']).port}"
        with StaticClient(
            **{**options(), "endpoint": endpoint, "identity": "grüße"},
            relay_name="localhost",
            traffic="strict",
            cells_per_second=64,
            offers="known",
            history=30,
            fallback=False,
            accept_rolled_back=True,
            connect_timeout=SECONDS,
        ) as agent:
            (member,) = agent.create_channel(new_name()).members()
            self.assertEqual(member.identity.decode(), "grüße")

    def test_wrong_options_are_refused_by_their_names(self) -> None:
        self.assertIn("`cells_per_second`", str(self.refused(cells_per_second=4)))
        self.assertIn("`connect_timeout` is 0.", str(self.refused(connect_timeout=0)))
        self.assertIn("`fallback`", str(self.refused(fallback="no")))
        self.assertIn("`wait`", str(self.refused(wait="yes")))
        self.assertIn("`traffic`", str(self.refused(traffic="loud")))
        self.assertIn("`history` is", str(self.refused(history=366)))

    def test_a_new_key_of_a_known_identity_is_accepted(self) -> None:
        with client(b"one") as one, client(b"two") as two, client(b"two") as other:
            channel, _ = support.channel_of(one, two)
            channel.remove_member(two.agent_id)
            self.assertEqual(failure(channel.add_member, other.agent_id).code, "identity_changed")
            self.assertEqual(failure(channel.accept_new_key, "two", "none").code, "invalid_request")
            channel.accept_new_key("two", other.agent_id)
            channel.add_member(other.agent_id)

    def test_the_owner_alone_judges_commits(self) -> None:
        with client(b"one") as one, client(b"two") as two:
            channel, joined = support.channel_of(one, two)
            self.assertEqual(failure(joined.reject_commit, 1).code, "not_allowed")
            self.assertEqual(failure(joined.lift_bar, one.agent_id).code, "not_allowed")
            channel.lift_bar(two.agent_id)
            self.assertEqual(failure(channel.reject_commit, 1_000_000).code, "not_found")
