"""Errors, without a server."""

from __future__ import annotations

import logging
import pickle
import unittest

import static_sdk
from static_sdk import errors
from static_sdk._handler_log import HandlerLog, error_text
from static_sdk.errors import error_from, make_error, with_prefix

PREFIXES = {"MLS engine error:", "transport error:", "invalid channel name:", "auth error:", "runtime error:"}


class HandlerLogTest(unittest.TestCase):
    PAYLOAD = '{"name": "Ada Lovelace", "card": "4000 1234"}'

    def failed(self, message: str) -> Exception:
        try:
            try:
                int("x")
            except ValueError as error:
                raise KeyError(message) from error
        except KeyError as error:
            return error

    def test_an_error_is_shown_with_its_traceback_but_without_payload_and_secrets(self) -> None:
        text = error_text(self.failed(f"no Ada Lovelace in {self.PAYLOAD}: st_inv_{'Q7r2Xw9L' * 3}\n\x1b[2J"), self.PAYLOAD.encode())
        self.assertNotIn("Lovelace", text)
        self.assertNotIn("4000", text)
        self.assertNotIn("Xw9L", text)
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r'(?s)^  File ".*test_errors.py", line \d+, in failed\n.*\nKeyError: .*….*st_inv_…')
        self.assertRegex(text, r"\ncaused by ValueError: invalid literal for int\(\) with base 10: 'x'$")
        self.assertLess(len(error_text(self.failed("x" * 1_000_000), b"")), 10_000)

    def test_warnings_end_while_events_are_read_and_are_limited(self) -> None:
        usual = HandlerLog(None)
        reader = HandlerLogTest()
        usual.begin_reading(reader)
        with self.assertNoLogs("static_sdk"):
            usual.warn("Failed.", ValueError("x"), b"")
            HandlerLog(False).warn("Failed.", ValueError("x"), b"")
        usual.end_reading(reader)
        with self.assertLogs("static_sdk", "WARNING") as logs:
            for _ in range(100):
                usual.warn("Failed.", ValueError("x"), b"")
        self.assertEqual((len(logs.output), logs.output[0]), (30, "WARNING:static_sdk:Failed.\nValueError: x"))
        own = HandlerLog(logging.getLogger("mine"))
        own.begin_reading(reader)
        with self.assertLogs("mine", "WARNING"):
            own.warn("Failed.", ValueError("x"), b"")
        with self.assertRaises(static_sdk.StaticError) as raised:
            HandlerLog("console")  # type: ignore[arg-type]
        self.assertEqual(raised.exception.code, "invalid_request")


class ErrorsTest(unittest.TestCase):
    def test_every_code_has_its_class_and_prefix(self) -> None:
        self.assertEqual({prefix for _, _, prefix, _ in errors.CODES.values()}, PREFIXES)
        for code, (kind, status, prefix, retryable) in errors.CODES.items():
            error = make_error(code, "Some words.", "https://api.example/")
            self.assertIs(type(error), kind)
            self.assertIsInstance(error, RuntimeError)
            self.assertEqual(str(error), "Some words.")
            self.assertEqual(str(with_prefix(error)), f"{prefix} Some words.")
            self.assertEqual((str(with_prefix(error)), error.message), (f"{prefix} Some words.", "Some words."))
            self.assertEqual((error.code, error.http_status, error.retryable), (code, status, retryable))
            self.assertEqual(error.doc_url, f"https://api.example/docs/errors#{code}")
            self.assertIs(getattr(static_sdk, kind.__name__), kind)

    def test_causes_are_kept_and_names_are_pythonic(self) -> None:
        told = {"code": "listener_died", "message": "See `dataDir`.", "cause": {"code": "store_corrupt", "message": "x"}}
        error = error_from(told)
        self.assertEqual((str(error), error.doc_url), ("See `data_dir`.", None))
        self.assertEqual(getattr(error.cause, "code", None), "store_corrupt")
        told = {"code": "transport_error", "message": "y", "cause": {"message": "a plain one"}}
        self.assertEqual(str(error_from(told).cause), "a plain one")

    def test_a_code_of_a_newer_driver_is_kept(self) -> None:
        error = make_error("brand_new", "Words.")
        self.assertEqual((error.code, error.http_status, str(with_prefix(error))), ("brand_new", 500, "runtime error: Words."))

    def test_errors_can_be_pickled(self) -> None:
        for text, made in (("Gone.", make_error), ("runtime error: Gone.", lambda *given: with_prefix(make_error(*given)))):
            error = pickle.loads(pickle.dumps(made("removed", "Gone.", "https://api.example")))
            self.assertEqual((type(error), error.code, str(error)), (static_sdk.ChannelError, "removed", text))
            self.assertEqual((error.message, error.doc_url), ("Gone.", "https://api.example/docs/errors#removed"))
