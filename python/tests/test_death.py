"""A manager that has died raises ``listener_died``.

The driver here is a script, because the real one dies only if its disk fails.
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
import json, socket, struct, sys
if "--version" in sys.argv:
    print("v26.0.0")
    sys.exit()
program = socket.socket(fileno=int(sys.argv[-2])).accept()[0].makefile("rwb")
def write(data):
    try:
        program.write(data)
        program.flush()
    except BrokenPipeError:
        sys.exit()
def tell(told):
    header = json.dumps(told).encode()
    write(struct.pack(">II", 4 + len(header), len(header)) + header)
while True:
    head = program.read(8)
    if not head:
        break
    length, header = struct.unpack(">II", head)
    said = json.loads(program.read(length - 4)[:header])
    if said["do"] == "connect":
        tell({{"id": said["id"], "result": {{"agentId": "aa", "fingerprint": "aa", "apiUrl": None}}}})
    if said["do"] == "channel":
        tell({{"id": said["id"], "result": {{"on": 0, "name": said["name"], "id": "bb", "owner": "cc"}}}})
    if said["do"] == "more":
        cause = {{"code": "store_corrupt", "message": "The disk is gone."}}
        tell({{"event": "died", "error": {{"code": "listener_died", "message": "Make a new one.", "cause": cause}}}})
"""


#: Sends one payload, then the end of the channel before the rest of what was requested.
ENDED = DRIVER.replace('if said["do"] == "more":', """if said["do"] == "more":
        sender = {"agentId": "dd", "fingerprint": "dd", "identity": "ee"}
        tell({"event": "payload", "on": 0, "run": said["run"], "token": 1, "sender": sender, "messageId": "ff",
              "index": 1, "epoch": 1, "time": 0, "redelivered": False})
        tell({"event": "ended", "on": 0, "run": said["run"], "error": {"code": "removed", "message": "You are out."}})
    if False:""")

#: Malformed frames, and frames that were not requested.
GARBAGE = (b"(node:1) Warning: words\n", b"\xff" * 8, b"\0\0\0\6\0\0\0\2{]", b"\0\0\0\6\0\0\0\2{}", b"\0\0\0\6\0\0\0\2[]")


class DeathTest(unittest.TestCase):
    def manager(self, directory: str, text: str) -> StaticChannelManager:
        script = Path(directory) / "node"
        script.write_text(text)
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        with mock.patch.dict(os.environ, {"STATIC_NODE": str(script)}):
            return StaticChannelManager("quic://localhost", directory, b"agent")

    def test_received_payloads_are_delivered_before_the_end_of_the_channel(self) -> None:
        with tempfile.TemporaryDirectory() as directory, self.manager(directory, ENDED) as manager:
            (envelope,) = Background(manager.receive_envelopes, "acme/support/routing", 20).result()
            self.assertEqual(envelope.message_id, "ff")

    def test_a_driver_that_sends_nonsense_is_ended_and_every_call_fails(self) -> None:
        for words in GARBAGE:
            text = DRIVER.replace("while True:", f"write({words!r})\nwhile True:")
            with tempfile.TemporaryDirectory() as directory, self.subTest(words):
                error = failure(Background(self.manager, directory, text).result)
                expect(self, error, TransportError, "listener_died")

    def test_receive_raises_listener_died_at_once_and_from_then_on(self) -> None:
        with tempfile.TemporaryDirectory() as directory, self.manager(directory, DRIVER) as manager:
            waiting = Background(manager.receive, "acme/support/routing", 60)
            error = failure(waiting.result)
            expect(self, error, TransportError, "listener_died")
            self.assertEqual(getattr(error.cause, "code", None), "store_corrupt")
            error = failure(manager.receive_envelopes, "acme/support/routing", 60)
            expect(self, error, TransportError, "listener_died")
