"""Python and TypeScript agents in one channel."""

from __future__ import annotations

import json
import os
import subprocess
import unittest
from pathlib import Path
from typing import Any, Dict, Optional

from static_sdk import Channel, _driver

from . import support
from .support import SERVER, manager, new_name
from .test_surface import PAYLOADS

PEER = Path(__file__).resolve().parents[2] / "tests" / "python" / "peer.ts"


def setUpModule() -> None:
    support.keep_driver()


class Peer:
    """A TypeScript agent that echoes messages."""

    def __init__(
        self,
        test: unittest.TestCase,
        way: str,
        name: str,
        token: Optional[str] = None,
        issuer: Optional[Dict[str, str]] = None,
    ) -> None:
        self._process = subprocess.Popen(
            [_driver.driver_command()[0], str(PEER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_driver.driver_environment(os.environ),
        )
        test.addCleanup(self._close)
        options = {
            "endpoint": SERVER[way],
            "dataDir": support.new_directory(),
            "identity": "typescript",
            "apiKey": SERVER["apiKey"],
            "apiUrl": SERVER["apiUrl"],
            "ca": SERVER["ca"],
        }
        ask: Dict[str, Any] = {"options": options, "name": name}
        if issuer is not None:
            ask["issuer"] = issuer
        #: The invite token of the channel that it created.
        self.said = self.ask(json.dumps(ask if token is None else {**ask, "token": token}))

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def _close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(support.SECONDS)
        self._process.stdout.close()


class TypeScriptTest(unittest.TestCase):
    def talk(self, channel: Channel, peer: Peer) -> None:
        for payload in PAYLOADS:
            channel.send(payload)
        received = []
        for envelope in channel.envelopes():
            received.append(envelope.payload)
            self.assertEqual(envelope.sender.identity, b"typescript")
            if len(received) == len(PAYLOADS):
                break
        self.assertEqual(received, PAYLOADS)
        self.assertEqual(peer.ask("verify"), channel.verify())

    def test_python_owns_and_typescript_joins_over_quic(self) -> None:
        with manager("pythön\x00".encode()) as owner:
            name = new_name()
            channel = owner.create(name)
            self.talk(channel, Peer(self, "quic", name, owner.invite(name)))

    def test_typescript_owns_and_python_joins_over_grpc(self) -> None:
        with manager("pythön\x00".encode(), way="grpc", guest=True) as joiner:
            name = new_name()
            peer = Peer(self, "grpc", name)
            self.talk(joiner.join_with_token(name, peer.said), peer)
