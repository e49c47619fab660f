"""Who runs an agent: a real OIDC issuer over TLS, whose tokens a function of the program gets."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
import unittest
import urllib.parse
from typing import Any, List

from static_sdk import ChannelError, ChannelMember, StaticChannelManager, StaticError, aio
from static_sdk.events import JoinRefused, ProofChecked

from . import support
from .support import SECONDS, expect, failure, new_name, options
from .test_typescript import Peer

#: `tests/python/static_sdk.test.ts` has put this issuer, at its pinned address, on the trust list of the account.
ISSUER = "oidc:https://idp.example"


def setUpModule() -> None:
    support.keep_driver()


def token_for(audience: str) -> str:
    """A token of the issuer, as a program gets it from its own."""
    host, port = support.SERVER["issuer"]["address"].split(":")
    context = ssl.create_default_context(cafile=support.SERVER["issuer"]["ca"])
    connection = http.client.HTTPSConnection("idp.example", context=context)
    connection.sock = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname="idp.example")
    form = {
        "client_id": "billing",
        "client_secret": "only-for-tests",
        "grant_type": "client_credentials",
        "resource": audience,
    }
    headers = {"host": "idp.example", "content-type": "application/x-www-form-urlencoded"}
    try:
        connection.request("POST", "/token", urllib.parse.urlencode(form), headers)
        return str(json.loads(connection.getresponse().read())["access_token"])
    finally:
        connection.close()


def shown(member: ChannelMember) -> str:
    """Who runs a member."""
    return "nobody knows" if member.proof is None else member.proof.shown


class ProofsTest(unittest.TestCase):
    def manager(self, identity: str, **wishes: Any) -> StaticChannelManager:
        manager = StaticChannelManager(**{**options(), "identity": identity, **wishes})
        self.addCleanup(manager.close)
        return manager

    def test_a_function_gets_the_token_for_each_proof(self) -> None:
        asked: List[str] = []

        def mint(audience: str) -> str:
            asked.append(audience)
            if len(asked) == 1:
                raise ValueError("the metadata server is away")
            return "" if len(asked) == 2 else token_for("static:another" if len(asked) == 3 else audience)

        name = new_name()
        owner, job = self.manager("owner"), self.manager("job", proof=mint, api_key="", endpoint=support.SERVER["grpc"])
        channel = owner.create(name, require=f"{ISSUER}#billing")
        token = owner.invite(name)
        error = failure(job.join_with_token, name, token, 20, show=True)
        expect(self, error, StaticError, "invalid_request")
        self.assertIn("ValueError: the metadata server is away", str(error))
        for _ in range(2):
            expect(self, failure(job.join_with_token, name, token, 20, show=True), StaticError, "invalid_request")
        joined = job.join_with_token(name, token, 20, show=True)
        [proof] = [member.proof for member in channel.members() if member.proof is not None]
        self.assertEqual((proof.state, proof.kind, proof.name, proof.subject), ("checked", "oidc", ISSUER[5:], "billing"))
        joined.send("paid")
        [envelope] = owner.receive_envelopes(name, 20)
        # It shows its proof again once it has joined, so `until` may be another.
        self.assertEqual((envelope.text(), shown(envelope.sender)), ("paid", "https://idp.example billing"))
        self.assertEqual(len(set(asked)), len(asked), "each has an audience of its own")

    def test_python_checks_the_proof_of_a_typescript_agent(self) -> None:
        for way in ("quic", "grpc"):
            with self.subTest(way):
                name = new_name()
                owner = self.manager("owner", endpoint=support.SERVER[way])
                channel = owner.create(name, require=f"{ISSUER}#billing")
                peer = Peer(self, way, name, owner.invite(name), support.SERVER["issuer"])
                self.assertEqual(peer.said, "joined")
                self.assertIn("https://idp.example billing", [shown(member) for member in channel.members()])
                channel.send("who are you?")
                [envelope] = owner.receive_envelopes(name, 20)
                self.assertEqual((envelope.text(), envelope.sender.identity), ("who are you?", b"typescript"))
                self.assertEqual(shown(envelope.sender), "https://idp.example billing")


class AioProofsTest(unittest.IsolatedAsyncioTestCase):
    async def agent(self, identity: str, **wishes: Any) -> aio.StaticClient:
        agent = await aio.StaticClient(**{**options(), "identity": identity, **wishes})
        self.addAsyncCleanup(agent.close)
        return agent

    async def test_the_same_with_asyncio_and_what_the_owner_is_told(self) -> None:
        async def mint(audience: str) -> str:
            return await asyncio.get_running_loop().run_in_executor(None, token_for, audience)

        async def nothing(audience: str) -> Any:
            return None

        owner, job, broken = await asyncio.gather(
            self.agent("owner"), self.agent("job", proof=mint), self.agent("broken", proof=nothing)
        )
        events = owner.events()
        channel = await owner.create_channel(new_name())
        token = await owner.invite(channel.name, require=[f"{ISSUER}#other", f"{ISSUER}#billing"], max_uses=2)
        other = await owner.invite(channel.name, require=f"{ISSUER}#other")
        with self.assertRaisesRegex(StaticError, "it returned NoneType, not str"):
            await broken.join_with_token(channel.name, token, 20, show=True)
        with self.assertRaises(ChannelError) as refused:
            await job.join_with_token(channel.name, other, 20, show=True)
        self.assertEqual(refused.exception.code, "proof_required")
        joined = await job.join_with_token(channel.name, token, 20, show=True)
        told = [await next_of(events, JoinRefused), await next_of(events, ProofChecked)]
        self.assertEqual(told[0].reason, "It is https://idp.example billing, which no rule names.")
        self.assertEqual((told[1].member, told[1].proof.subject), (job.agent_id, "billing"))
        [member] = [each for each in await channel.members() if each.proof is not None]
        self.assertEqual((member.agent_id, shown(member)), (job.agent_id, told[1].proof.shown))
        await joined.send("paid")
        async for envelope in channel.envelopes():
            self.assertEqual(shown(envelope.sender), "https://idp.example billing")
            break
        # Added by hand, it shows its proof because it says so.
        second = await owner.create_channel(new_name(), require=f"{ISSUER}#billing")
        welcome = await second.add_member(await job.generate_key_package())
        await job.join_channel(second.name, welcome, show=True)
        self.assertEqual((await next_of(events, ProofChecked)).channel, second.name)


async def next_of(events: Any, kind: type) -> Any:
    """The next event of a kind."""
    while True:
        event = await asyncio.wait_for(events.__anext__(), SECONDS)
        if isinstance(event, kind):
            return event
