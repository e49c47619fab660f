"""Which Node is started, and with which arguments and environment."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from static_sdk import StaticError, _driver

from .support import SERVER, another_driver, client, driver_of, expect, failure, new_directory


def program(directory: str, text: str) -> str:
    """A program called node."""
    path = Path(directory) / "node"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class DriverTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)

    def test_static_node_overrides(self) -> None:
        own = program(self.directory, "echo v24.0.0")
        os.environ["STATIC_NODE"] = own
        self.assertEqual(_driver.driver_command()[0], own)

    def test_a_missing_old_or_wrong_node_is_an_error(self) -> None:
        os.environ["STATIC_NODE"] = os.path.join(self.directory, "nowhere")
        self.fails_with("STATIC_NODE is")
        os.environ["STATIC_NODE"] = program(self.directory, "echo v20.19.2")
        self.fails_with("which is Node 20")
        os.environ["STATIC_NODE"] = shutil.which("true") or ""
        self.fails_with("which is not Node")

    def test_without_static_node_the_node_in_path_is_used(self) -> None:
        del os.environ["STATIC_NODE"]
        with mock.patch.object(_driver, "_OWN_NODES", ()):
            os.environ["PATH"] = self.directory
            self.fails_with("there is no `node`")
            own = program(self.directory, "echo v26.1.0")
            self.assertEqual(_driver.driver_command()[0], own)

    def fails_with(self, words: str) -> None:
        error = failure(_driver.driver_command)
        expect(self, error, StaticError, "invalid_request")
        self.assertIn(words, str(error))

    def test_a_driver_starts_although_the_current_directory_is_gone(self) -> None:
        before = os.getcwd()
        gone = os.path.join(self.directory, "gone")
        os.mkdir(gone)
        os.chdir(gone)
        try:
            os.rmdir(gone)
            with another_driver(), client(b"agent") as agent:
                self.assertEqual(agent.channels(), [])
            expect(self, failure(client, b"agent", "here"), StaticError, "invalid_request", "runtime error:")
        finally:
            os.chdir(before)

    def test_no_secret_in_the_arguments_and_no_node_variable_in_the_environment(self) -> None:
        os.environ["NODE_OPTIONS"] = "--no-such-flag"
        os.environ["Node_Extra_Ca_Certs"] = "/nowhere"
        os.environ["XDG_CACHE_HOME"] = "/nowhere/cache"
        del os.environ["STATIC_TEST_SERVER"]
        with client(b"agent", new_directory()) as agent:
            process = Path("/proc") / str(driver_of(agent))
            for secret in (SERVER["apiKey"], SERVER["apiKey"].split("_")[-1]):
                self.assertNotIn(secret.encode(), (process / "cmdline").read_bytes())
                self.assertNotIn(secret.encode(), (process / "environ").read_bytes())
            names = [entry.split(b"=")[0].upper() for entry in (process / "environ").read_bytes().split(b"\0")]
            self.assertEqual([name for name in names if name.startswith(b"NODE_")], [])

    def test_compiled_code_is_kept_only_where_this_user_alone_can_write(self) -> None:
        home = os.path.join(self.directory, "cache")
        own = {"XDG_CACHE_HOME": home, "NODE_COMPILE_CACHE": "/elsewhere"}
        self.assertEqual(
            _driver.driver_environment(own), {"XDG_CACHE_HOME": home, "NODE_COMPILE_CACHE": f"{home}/static/code"}
        )
        for path in (f"{home}/static/code", f"{home}/static", home):
            os.chmod(path, 0o770)
            self.assertNotIn("NODE_COMPILE_CACHE", _driver.driver_environment(own))
            os.chmod(path, 0o700)
        with mock.patch.object(os, "geteuid", lambda: os.getuid() + 1):
            self.assertNotIn("NODE_COMPILE_CACHE", _driver.driver_environment(own))
