"""The seed's table, method by method: types, returns, failures and prefixes."""

from __future__ import annotations

import json
import os
import unittest
from datetime import datetime, timezone
from unittest import mock

from static_sdk import (
    AuthError,
    Channel,
    ChannelError,
    ChannelMember,
    MlsError,
    StaticClient,
    StaticError,
    TransportError,
)

from static_sdk.events import MembersChanged

from . import support
from .support import SERVER, channel_of, client, expect, failure, new_directory, new_name, options, take

IDENTITY = b"bob\x00\xff\xc3\xa9"
PAYLOADS = [
    "grüße, 世界 🌍".encode(),
    b"",
    bytes(range(256)) * 800,
    b"\x00\xff\n\r",
    bytes(262_144),
]


def setUpModule() -> None:
    support.keep_driver()


class SurfaceTest(unittest.TestCase):
    alice: StaticClient
    bob: StaticClient

    @classmethod
    def setUpClass(cls) -> None:
        cls.alice = client(b"alice")
        cls.addClassCleanup(cls.alice.close)
        cls.bob = client(IDENTITY, way="grpc")
        cls.addClassCleanup(cls.bob.close)

    def test_create_channel_returns_the_channel_and_the_own_one_again(self) -> None:
        name = new_name()
        channel = self.alice.create_channel(name)
        self.assertIsInstance(channel, Channel)
        self.assertEqual((channel.name, len(channel.id), channel.owner), (name, 32, self.alice.fingerprint()))
        self.assertIs(self.alice.create_channel(name), channel)
        self.assertIs(self.alice.channel(name), channel)
        self.assertIn(channel, self.alice.channels())

    def test_an_agent_on_a_clock_talks_with_one_that_has_none(self) -> None:
        with StaticClient(**options(b"carol"), traffic="private") as carol:
            own, joined = channel_of(carol, self.bob)
            own.send(b"tick")
            self.assertEqual(take(joined, 1), [b"tick"])

    def test_a_bad_name_is_an_invalid_channel_name(self) -> None:
        for name in ("acme", "acme/support", "Acme/support/routing", "acme/support/routing/x", "", "ä/b/c"):
            error = failure(self.alice.create_channel, name)
            expect(self, error, ChannelError, "channel_error", "invalid channel name:")
            self.assertEqual((error.http_status, error.retryable, error.cause), (400, False, None))
            self.assertEqual(error.doc_url, f"{SERVER['apiUrl']}/docs/errors#channel_error")
            expect(
                self,
                failure(self.bob.join_channel, name, b"welcome"),
                ChannelError,
                "channel_error",
                "invalid channel name:",
            )

    def test_a_channel_without_this_agent_is_not_found(self) -> None:
        expect(self, failure(self.bob.channel, new_name()), ChannelError, "not_found", "runtime error:")

    def test_generate_key_package_returns_bytes_for_one_use_each(self) -> None:
        one, other = self.bob.generate_key_package(), self.bob.generate_key_package()
        self.assertIsInstance(one, bytes)
        self.assertNotEqual(one, other)

    def test_add_member_returns_the_welcome_and_join_channel_the_channel(self) -> None:
        channel = self.alice.create_channel(new_name())
        welcome = channel.add_member(self.bob.generate_key_package())
        self.assertIsInstance(welcome, bytes)
        joined = self.bob.join_channel(channel.name, welcome, owner=self.alice.fingerprint())
        self.assertIsInstance(joined, Channel)
        self.assertEqual(joined.id, channel.id)
        self.assertIs(self.bob.join_channel(channel.name, welcome), joined)
        self.assertEqual(
            {(member.agent_id, member.fingerprint, member.identity) for member in joined.members()},
            {
                (self.alice.agent_id, self.alice.fingerprint(), b"alice"),
                (self.bob.agent_id, self.bob.fingerprint(), IDENTITY),
            },
        )

    def test_an_invalid_welcome_is_an_mls_engine_error(self) -> None:
        error = failure(self.bob.join_channel, new_name(), b"this is no Welcome")
        expect(self, error, MlsError, "invalid_welcome", "MLS engine error:")
        channel = self.alice.create_channel(new_name())
        welcome = channel.add_member(self.bob.generate_key_package())
        error = failure(self.bob.join_channel, channel.name, welcome, owner=self.bob.fingerprint())
        expect(self, error, MlsError, "invalid_welcome", "MLS engine error:")
        self.assertIsInstance(self.bob.join_channel(channel.name, welcome), Channel)

    def test_payloads_of_every_kind_arrive_as_they_were_sent(self) -> None:
        channel, joined = channel_of(self.alice, self.bob)
        for payload in PAYLOADS:
            self.assertIsNone(channel.send(payload))
        joined.send(bytearray(b"back"))
        self.assertEqual(take(joined, len(PAYLOADS)), PAYLOADS)
        self.assertEqual(take(channel, 1), [b"back"])
        # Still usable after a messages() loop was left.
        channel.send(memoryview(b"again"))
        received = take(joined, 1)[0]
        self.assertIs(type(received), bytes)
        self.assertEqual(received, b"again")

    def test_payloads_that_are_too_long_or_not_bytes_are_refused(self) -> None:
        channel = self.alice.create_channel(new_name())
        for size in (262_145, 2 * 1024 * 1024):
            expect(self, failure(channel.send, bytes(size)), ChannelError, "too_large", "runtime error:")
        for call in (channel.send, channel.add_member, lambda value: self.bob.join_channel(channel.name, value)):
            with self.assertRaises(TypeError):
                call(7)
        for value in (None, 1.5, {"task": 1}, ["text"]):
            with self.assertRaises(TypeError):
                channel.send(value)
        with self.assertRaises(ValueError):
            channel.send_json(float("nan"))
        self.assertEqual(failure(channel.send, b"x", timeout=-1).code, "invalid_request")
        channel.send(b"still well")

    def test_strings_and_json_arrive_and_a_receipt_has_the_position(self) -> None:
        channel, joined = channel_of(self.alice, self.bob)
        self.assertEqual(joined.wait_for_member(self.alice.agent_id).identity, b"alice")
        self.assertEqual(failure(joined.wait_for_member, "00" * 32, timeout=0.01).code, "cancelled")
        self.assertIsNone(channel.send("grüße", timeout=20))
        receipt = channel.send_envelope(memoryview(b"xbytesx")[1:6])
        channel.send_json({"wörter": [1, None]})
        envelopes = joined.envelopes()
        self.assertEqual(next(envelopes).text(), "grüße")
        envelope = next(envelopes)
        self.assertEqual((envelope.payload, envelope.message_id, envelope.index), (b"bytes", receipt.message_id, receipt.index))
        self.assertEqual(failure(envelope.json).code, "invalid_json")
        self.assertEqual(next(envelopes).json(), {"wörter": [1, None]})

    def test_envelopes_have_sender_and_position(self) -> None:
        channel, joined = channel_of(self.alice, self.bob)
        joined.send(b"one")
        joined.send(b"two")
        with channel.envelopes() as envelopes:
            one, two = next(envelopes), next(envelopes)
        self.assertEqual((one.payload, two.payload), (b"one", b"two"))
        self.assertEqual(one.sender, ChannelMember(self.bob.agent_id, self.bob.fingerprint(), IDENTITY))
        self.assertEqual((one.index + 1, one.epoch, one.redelivered), (two.index, two.epoch, False))
        self.assertEqual(len(one.message_id), len(two.message_id))
        self.assertNotEqual(one.message_id, two.message_id)
        self.assertLess(abs((datetime.now(timezone.utc) - one.time).total_seconds()), 60)

    def test_members_rotate_verify_and_are_removed(self) -> None:
        channel, joined = channel_of(self.alice, self.bob)
        joined.rotate()
        channel.send(b"after it")
        self.assertEqual(take(joined, 1), [b"after it"])
        self.assertEqual(len(channel.verify().split()), 12)
        joined.catch_up()
        self.assertEqual(channel.verify(), joined.verify())
        expect(self, failure(joined.remove_member, self.alice.agent_id), AuthError, "not_allowed", "auth error:")
        expect(self, failure(joined.vouch, self.alice.agent_id), AuthError, "not_allowed", "auth error:")
        channel.vouch(self.bob.agent_id)
        self.assertEqual([member.vouched for member in channel.members()], [True, True])
        self.assertEqual([member.vouched for member in joined.members()], [None, None])
        expect(self, failure(joined.reset_roster), AuthError, "not_allowed", "auth error:")
        channel.reset_roster()
        channel.send(b"after the reset")
        self.assertEqual(take(joined, 1), [b"after the reset"])
        channel.remove_member(self.bob.agent_id)
        with self.assertRaises(ChannelError) as raised:
            next(joined.messages())
        expect(self, raised.exception, ChannelError, "removed", "runtime error:")
        self.assertEqual([member.identity for member in channel.members()], [b"alice"])

    def test_leaving_ends_the_iterators_and_the_owner_deletes(self) -> None:
        channel, joined = channel_of(self.alice, self.bob)
        reading = support.Background(list, joined.messages())
        joined.leave()
        self.assertEqual(reading.result(), [])
        self.assertNotIn(joined, self.bob.channels())
        expect(self, failure(channel.leave), AuthError, "not_allowed", "auth error:")
        channel.delete()
        expect(self, failure(self.alice.channel, channel.name), ChannelError, "not_found", "runtime error:")

    def test_closing_a_channel_ends_its_iterators_and_no_later_one(self) -> None:
        channel, joined = channel_of(self.alice, self.bob)
        with joined:
            reading = support.Background(list, joined.messages())
            other = joined.messages()
            channel.send(b"kept")
            channel.send(b"for later")
        before = reading.result()
        self.assertEqual(list(other), [])
        channel.send(b"last")
        after = []
        for payload in joined.messages():
            after.append(payload)
            if payload == b"last":
                break
        self.assertEqual(before + after, [b"kept", b"for later", b"last"])

    def test_a_client_invites_and_joins(self) -> None:
        with client(b"guest", guest=True) as guest:
            channel = self.alice.create_channel(new_name())
            joined = guest.join_with_token(channel.name, self.alice.invite(channel.name), timeout=support.SECONDS)
            channel.send(b"welcome")
            self.assertEqual(take(joined, 1), [b"welcome"])
            link = self.alice.invite_link(channel.name, max_uses=3)
            self.assertIs(guest.join_with_link(link), joined)
            self.assertEqual([invite.max_uses for invite in self.alice.invites(channel.name)], [1, 3])
            self.alice.revoke_invite(self.alice.invites(channel.name)[1].id)
            self.assertIsNone(self.alice.died)
            expect(self, failure(guest.invite, channel.name), AuthError, "not_allowed", "auth error:")
            for wrong, words in (({"max_uses": "2"}, "`max_uses` of `invite` is '2'"), ({"admit": "all"}, "`admit` is")):
                error = failure(self.alice.invite, channel.name, **wrong)
                expect(self, error, StaticError, "invalid_request", "runtime error:")
                self.assertIn(words, str(error))
            error = failure(guest.join_with_token, channel.name, "st_inv_x", timeout="soon")
            self.assertIn("`timeout` of `join_with_token` is 'soon'", str(error))
            self.assertEqual(len(self.alice.invites(channel.name)), 2)

    def test_joins_yields_offers_and_events_yields_changes(self) -> None:
        with self.alice.events() as events, self.bob.joins() as offers:
            channel = self.alice.create_channel(new_name())
            self.assertIsInstance(channel.add_member(self.bob.agent_id), bytes)
            offer = next(offer for offer in offers if offer.name == channel.name)
            self.assertEqual(
                (offer.channel_id, offer.owner, offer.added_by), (channel.id, channel.owner, channel.owner)
            )
            joined = offer.accept()
            channel.send(b"welcome")
            self.assertEqual(take(joined, 1), [b"welcome"])
            changed = next(
                event
                for event in events
                if isinstance(event, MembersChanged) and self.bob.agent_id in event.added
            )
            expected = ("members_changed", channel.name, self.alice.agent_id)
            self.assertEqual((changed.type, changed.channel, changed.by), expected)


class ConstructorTest(unittest.TestCase):
    def refused(self, **fields: object) -> StaticError:
        return failure(StaticClient, **{**support.options(), **fields})

    def test_a_relay_that_is_down_is_a_transport_error(self) -> None:
        error = self.refused(endpoint="quic://127.0.0.1:9")
        expect(self, error, TransportError, "connection_error", "transport error:")
        self.assertTrue(error.retryable)

    def test_a_wrong_key_is_an_auth_error(self) -> None:
        wrong = SERVER["apiKey"][:-1] + ("a" if SERVER["apiKey"][-1] != "a" else "b")
        expect(self, self.refused(api_key=wrong), AuthError, "auth_key_invalid", "auth error:")

    def test_errors_use_the_python_names_of_arguments(self) -> None:
        error = failure(StaticClient, SERVER["quic"], new_directory(), b"agent", SERVER["apiKey"])
        expect(self, error, StaticError, "invalid_request", "runtime error:")
        self.assertIn("`api_url`", str(error))
        self.assertIsNone(error.doc_url)
        for odd in ("", 5):
            error = self.refused(api_url=odd)
            expect(self, error, StaticError, "invalid_request", "runtime error:")
            self.assertIsNone(error.doc_url)
        expect(self, self.refused(identity=b"\x00"), StaticError, "invalid_request", "runtime error:")
        with self.assertRaises(TypeError):
            StaticClient(SERVER["quic"], new_directory(), 7)  # type: ignore[arg-type]

    def test_a_directory_in_use_is_store_locked_and_free_after_close(self) -> None:
        directory = new_directory()
        with client(b"one", directory) as first:
            agent = first.agent_id
            error = failure(client, b"one", directory)
            expect(self, error, StaticError, "store_locked", "runtime error:")
        with client(b"one", directory) as second:
            self.assertEqual(second.agent_id, agent)
        expect(self, failure(second.generate_key_package), TransportError, "closed", "transport error:")

    def test_an_account_of_the_per_user_file_is_found_and_its_api_explains_errors(self) -> None:
        home = new_directory()
        os.makedirs(os.path.join(home, "static"), mode=0o700)
        path = os.path.join(home, "static", "credentials.json")
        fields = {"api_url": SERVER["apiUrl"], "api_key": SERVER["apiKey"], "ca": SERVER["ca"]}
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(fields, file)
        with mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": home}):
            with StaticClient(SERVER["quic"], new_directory(), b"agent") as agent:
                error = failure(agent.create_channel, "bad")
                self.assertEqual(error.doc_url, f"{SERVER['apiUrl']}/docs/errors#channel_error")
            closed = failure(agent.generate_key_package)
            self.assertEqual(closed.doc_url, f"{SERVER['apiUrl']}/docs/errors#closed")

    def test_missing_arguments_come_from_the_environment(self) -> None:
        name = new_name()
        environment = {
            "STATIC_RELAY": SERVER["grpc"],
            "STATIC_DATA_DIR": new_directory(),
            "STATIC_IDENTITY": "from outside",
            "STATIC_API_KEY": SERVER["apiKey"],
            "STATIC_API_URL": SERVER["apiUrl"],
            "STATIC_CA": SERVER["ca"],
        }
        with mock.patch.dict(os.environ, environment), StaticClient(None, None, None) as agent:
            self.assertEqual([member.identity for member in agent.create_channel(name).members()], [b"from outside"])
            error = failure(agent.create_channel, "bad")
            self.assertEqual(error.doc_url, f"{SERVER['apiUrl']}/docs/errors#channel_error")
            error = failure(StaticClient, "nonsense", new_directory(), None)
            self.assertEqual(error.doc_url, f"{SERVER['apiUrl']}/docs/errors#invalid_request")
            error = failure(StaticClient, "quic://127.0.0.1:9", new_directory(), None)
            self.assertEqual(error.doc_url, f"{SERVER['apiUrl']}/docs/errors#connection_error")
            # A guest despite the key in the environment.
            with StaticClient(None, new_directory(), b"guest", api_key="") as guest:
                error = failure(guest.create_channel, new_name())
                expect(self, error, AuthError, "api_key_required", "auth error:")
