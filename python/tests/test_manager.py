"""The channel manager."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import unittest

from static_sdk import (
    AuthError,
    ChannelError,
    ProofFile,
    StaticChannelManager,
    StaticClient,
    StaticError,
    TransportError,
)

from . import support
from .support import expect, failure, manager, new_name


def statement(agent_id: str) -> str:
    """What a domain that no one trusts says about an agent."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now = int(time.time())
    claims = {"iss": "https://evil.example", "sub": "claimant", "jti": "0123456789abcdef", "cnf": {"kid": agent_id}}
    header = {"alg": "EdDSA", "typ": "static-agent+jwt"}
    return f"{part(header)}.{part({**claims, 'iat': now, 'exp': now + 3600})}.{'A' * 86}"


class ManagerTest(unittest.TestCase):
    owner: StaticChannelManager
    guest: StaticChannelManager

    @classmethod
    def setUpClass(cls) -> None:
        cls.owner = manager(b"owner")
        cls.addClassCleanup(cls.owner.close)
        cls.guest = manager(b"guest", guest=True, way="grpc")
        cls.addClassCleanup(cls.guest.close)

    def channel(self) -> str:
        """A channel with both as members."""
        name = new_name()
        self.owner.create(name)
        self.guest.join_with_token(name, self.owner.invite(name), 30)
        return name

    def test_the_same_arguments_and_a_client_below(self) -> None:
        self.assertIsInstance(self.owner.client, StaticClient)
        self.assertEqual(len(self.owner.client.agent_id), 64)

    def test_a_guest_joins_with_a_token_and_both_send(self) -> None:
        name = new_name()
        created = self.owner.create(name)
        self.assertIs(self.owner.create(name), created)
        token = self.owner.invite(name)
        self.assertTrue(token.startswith("st_inv_"))
        joined = self.guest.join_with_token(name, token)
        self.assertEqual((joined.name, joined.id), (name, created.id))
        self.assertIn(name, [channel.name for channel in self.guest.channels()])
        self.assertIsNone(self.guest.send(name, "grüße".encode()))
        self.assertEqual(self.owner.receive(name, 20), "grüße".encode())
        self.owner.send(name, b"")
        self.assertEqual(self.guest.receive(name, 20), b"")

    def test_receive_returns_none_after_its_timeout(self) -> None:
        name = self.channel()
        start = time.monotonic()
        self.assertIsNone(self.owner.receive(name, timeout=0.2))
        self.assertIsNone(self.owner.receive(name, 0))
        self.assertEqual(self.owner.receive_envelopes(name, 0), [])
        self.assertLess(time.monotonic() - start, support.SECONDS)
        self.guest.send(name, b"late")
        self.assertEqual(self.owner.receive(name, 20), b"late")

    def test_receive_envelopes_returns_all_pending(self) -> None:
        name = self.channel()
        for number in range(10):
            self.guest.send(name, str(number).encode())
        received = []
        while len(received) < 10:
            received += self.owner.receive_envelopes(name, 20)
        self.assertEqual([envelope.payload for envelope in received], [str(n).encode() for n in range(10)])
        self.assertEqual({envelope.sender.identity for envelope in received}, {b"guest"})

    def test_messages_and_receive_share_the_payloads(self) -> None:
        name = self.channel()
        for number in range(6):
            self.guest.send(name, str(number).encode())
        channel = self.owner.client.channel(name)
        self.assertEqual(support.take(channel, 2), [b"0", b"1"])
        self.assertEqual(self.owner.receive(name, 20), b"2")
        self.assertEqual(support.take(channel, 1), [b"3"])
        self.assertEqual(self.owner.receive(name, 20), b"4")
        self.assertEqual(self.owner.receive(name, 20), b"5")
        self.assertIsNone(self.owner.receive(name, 0.1))

    def test_several_threads_receive_each_payload_once(self) -> None:
        name = self.channel()
        received = []

        def receive() -> None:
            while True:
                payload = self.owner.receive(name, 20)
                if payload == b"end":
                    return
                received.append(payload)

        threads = [threading.Thread(target=receive) for _ in range(3)]
        for thread in threads:
            thread.start()
        expected = [str(number).encode() for number in range(30)]
        for payload in expected + [b"end"] * 3:
            self.guest.send(name, payload)
        for thread in threads:
            thread.join(support.SECONDS)
        self.assertEqual(sorted(received), sorted(expected))

    def test_invites_end_by_use_revocation_and_time(self) -> None:
        name = new_name()
        self.owner.create(name)
        token = self.owner.invite(name, max_uses=2, ttl=60)
        [invite] = self.owner.invites(name)
        self.assertEqual((invite.state, invite.uses, invite.max_uses), ("open", 0, 2))
        self.owner.revoke_invite(invite.id)
        self.assertEqual([invite.state for invite in self.owner.invites(name)], ["revoked"])
        error = failure(self.guest.join_with_token, name, token, 20)
        expect(self, error, ChannelError, "invite_revoked")
        for nonsense in ("st_inv_nonsense", b"st_inv_", 5, None):
            error = failure(self.guest.join_with_token, name, nonsense, 5)
            expect(self, error, ChannelError, "invite_invalid")
        expect(self, failure(self.guest.invite, new_name()), ChannelError, "not_found")
        joined = self.channel()
        expect(self, failure(self.guest.invite, joined), AuthError, "not_allowed")
        error = failure(self.owner.invite, name, admit="anyone")
        expect(self, error, StaticError, "invalid_request")

    def test_members_may_admit(self) -> None:
        name = new_name()
        channel = self.owner.create(name)
        token = self.owner.invite(name, admit="members")
        [invite] = self.owner.invites(name)
        self.assertEqual(invite.admit, "members")
        joined = self.guest.join_with_token(name, token, support.SECONDS)
        # The owner was there first, and so it has confirmed the channel.
        self.assertTrue(joined.confirmed())
        self.assertTrue(channel.confirmed())

    def test_an_owner_asks_for_proofs_and_sees_claims(self) -> None:
        name = new_name()
        channel = self.owner.create(name)
        token = self.owner.invite(name, require=["acme.example", "github:acme/app@refs/heads/main"])
        expect(self, failure(self.guest.join_with_token, name, token, 20), ChannelError, "proof_required")
        expect(self, failure(self.owner.invite, name, require="acme"), StaticError, "invalid_request")
        path = os.path.join(support.new_directory(), "statement.jwt")
        claimant = StaticChannelManager(**support.options(b"claimant", guest=True), proof=ProofFile(path))
        self.addCleanup(claimant.close)
        with open(path, "w") as file:
            file.write(statement(claimant.client.agent_id))
        error = failure(claimant.join_with_token, name, token, 20, show=True)
        expect(self, error, ChannelError, "proof_required")
        claimant.join_with_token(name, self.owner.invite(name), 20, show=True)
        until = time.monotonic() + support.SECONDS
        proofs = [member.proof for member in channel.members() if member.proof is not None]
        while not proofs and time.monotonic() < until:
            time.sleep(0.02)
            proofs = [member.proof for member in channel.members() if member.proof is not None]
        [proof] = proofs
        self.assertEqual((proof.state, proof.claimed, proof.until), ("unchecked", "evil.example", None))
        self.assertEqual(proof.shown, "claims evil.example (unchecked: no root)")
        claimant.send(name, b"hello")
        [envelope] = self.owner.receive_envelopes(name, 20)
        self.assertEqual(envelope.sender.proof, proof)

    def test_a_new_agent_with_nothing_but_a_link_joins(self) -> None:
        name = new_name()
        self.owner.create(name)
        link = self.owner.invite_link(name, max_uses=2)
        with StaticChannelManager(data_dir=support.new_directory(), identity="by-link", link=link) as newcomer:
            self.assertEqual(newcomer.join_with_link(link, 30).name, name)
            newcomer.send(name, "hello")
        self.assertEqual(self.owner.receive(name, 30), b"hello")
        self.assertEqual(self.guest.join_with_link(link, 30).name, name)
        error = failure(self.guest.join_with_link, link[:-1] + ("a" if link[-1] != "a" else "b"), 5)
        expect(self, error, ChannelError, "invite_invalid")

    def test_an_owner_that_does_not_run_is_a_join_timeout(self) -> None:
        name = new_name()
        directory = support.new_directory()
        with manager(b"away", directory) as owner:
            owner.create(name)
            token = owner.invite(name)
        error = failure(self.guest.join_with_token, name, token, timeout=0.5)
        expect(self, error, TransportError, "join_timeout")
        # The owner is back, and the same token still works.
        with manager(b"away", directory):
            self.assertEqual(self.guest.join_with_token(name, token, 30).name, name)
