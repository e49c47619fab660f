"""A manager that answers nobody any more says so.

Its driver here is a script, for the real one dies only with a broken disk.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from static_sdk import StaticChannelManager, TransportError

from .support import Background, expect, failure

DRIVER = f"""#!{sys.executable} -B
import json, struct, sys
if "--version" in sys.argv:
    print("v26.0.0")
    sys.exit()
def tell(told):
    header = json.dumps(told).encode()
    sys.stdout.buffer.write(struct.pack(">II", 4 + len(header), len(header)) + header)
    sys.stdout.buffer.flush()
while True:
    head = sys.stdin.buffer.read(8)
    if not head:
        break
    length, header = struct.unpack(">II", head)
    said = json.loads(sys.stdin.buffer.read(length - 4)[:header])
    if said["do"] == "connect":
        tell({{"id": said["id"], "result": {{"agentId": "aa", "fingerprint": "aa"}}}})
    if said["do"] == "channel":
        tell({{"id": said["id"], "result": {{"on": 0, "name": said["name"], "id": "bb", "owner": "cc"}}}})
    if said["do"] == "more":
        cause = {{"code": "store_corrupt", "message": "The disk is gone."}}
        tell({{"event": "died", "error": {{"code": "listener_died", "message": "Make a new one.", "cause": cause}}}})
"""


class DeathTest(unittest.TestCase):
    def test_receive_raises_listener_died_at_once_and_from_then_on(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            script = Path(directory) / "node"
            script.write_text(DRIVER)
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
            with mock.patch.dict(os.environ, {"STATIC_NODE": str(script)}):
                manager = StaticChannelManager("quic://localhost", directory, b"agent")
            with manager:
                waiting = Background(manager.receive, "acme/support/routing", 60)
                error = failure(waiting.result)
                expect(self, error, TransportError, "listener_died", "transport error:")
                self.assertEqual(getattr(error.cause, "code", None), "store_corrupt")
                error = failure(manager.receive_envelopes, "acme/support/routing", 60)
                expect(self, error, TransportError, "listener_died", "transport error:")
