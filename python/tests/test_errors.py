"""Errors, without a server."""

from __future__ import annotations

import pickle
import unittest

import static_sdk
from static_sdk import errors
from static_sdk.errors import error_from, make_error

PREFIXES = {"MLS engine error:", "transport error:", "invalid channel name:", "auth error:", "runtime error:"}


class ErrorsTest(unittest.TestCase):
    def test_every_code_has_its_class_and_prefix(self) -> None:
        self.assertEqual({prefix for _, _, prefix, _ in errors.CODES.values()}, PREFIXES)
        for code, (kind, status, prefix, retryable) in errors.CODES.items():
            error = make_error(code, "Some words.", "https://api.example/")
            self.assertIs(type(error), kind)
            self.assertIsInstance(error, RuntimeError)
            self.assertEqual(str(error), f"{prefix} Some words.")
            self.assertEqual((error.code, error.http_status, error.retryable), (code, status, retryable))
            self.assertEqual(error.doc_url, f"https://api.example/docs/errors#{code}")
            self.assertIs(getattr(static_sdk, kind.__name__), kind)

    def test_causes_are_kept_and_names_are_pythonic(self) -> None:
        told = {"code": "listener_died", "message": "See `dataDir`.", "cause": {"code": "store_corrupt", "message": "x"}}
        error = error_from(told)
        self.assertEqual((str(error), error.doc_url), ("transport error: See `data_dir`.", None))
        self.assertEqual(getattr(error.cause, "code", None), "store_corrupt")
        told = {"code": "transport_error", "message": "y", "cause": {"message": "a plain one"}}
        self.assertEqual(str(error_from(told).cause), "a plain one")

    def test_a_code_of_a_newer_driver_is_kept(self) -> None:
        error = make_error("brand_new", "Words.")
        self.assertEqual((error.code, error.http_status, str(error)), ("brand_new", 500, "runtime error: Words."))

    def test_errors_can_be_pickled(self) -> None:
        error = pickle.loads(pickle.dumps(make_error("removed", "Gone.", "https://api.example")))
        self.assertEqual((type(error), error.code, str(error)), (static_sdk.ChannelError, "removed", "runtime error: Gone."))
