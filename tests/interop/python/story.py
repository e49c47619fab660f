"""The story of a channel with two agents in Python; prints what came of it as JSON. Where the relay is, and whose
tokens to use, is told on standard input."""

import json
import os
import socket
import ssl
import sys

from relay_client import Refused, Relay, chain_next, declaration, new_key, public_bytes, sha256


def main():
    target = json.load(sys.stdin)

    def connect():
        return Relay(target["descriptors"], target["host"], target["port"], target["ca"], target["serverName"])

    alice, bob = connect(), connect()
    alice_key, bob_key = new_key(), new_key()
    alice_id, bob_id = sha256(public_bytes(alice_key)), sha256(public_bytes(bob_key))
    channel, message_id = os.urandom(16), os.urandom(16)
    seen = {"tls": tls_versions(target)}
    seen["health"] = [alice.health(), alice.health("static.relay.v1.Relay")]
    seen["withoutToken"] = refusal(alice, "AddMember", channel_id=channel, agent_id=bob_id)[:2]

    # A channel, and a second agent in it.
    opened = alice.open(alice_key, target["tokens"][0])
    seen["opened"] = opened.agent_id == alice_id and alice.token != ""
    bob.open(bob_key, target["tokens"][1])
    created = alice.call("CreateChannel", name="acme/test/python", channel_id=channel, welcome=b"welcome, alice")
    seen["created"] = [created.channel_id == channel, created.welcome.decode()]
    pushes = bob.subscribe()
    seen["subscribed"] = next(pushes).WhichOneof("body")
    commit = os.urandom(200)
    change = declaration(alice_key, channel, 0, message_id, commit, [bob_id])
    welcomes = [{"agent_id": bob_id, "welcome": b"welcome, bob"}]
    place = {"channel_id": channel, "slot": 0, "message_id": message_id}
    forged = {**change, "signature": bytes(64)}
    seen["forged"] = refusal(alice, "SendCommit", **place, commit=commit, declaration=forged, welcomes=welcomes)[:2]
    committed = alice.call("SendCommit", **place, commit=commit, declaration=change, welcomes=welcomes)
    seen["committed"] = [committed.index, committed.head]
    welcome = next(pushes).deliver_welcome
    seen["welcome"] = [welcome.name, welcome.welcome.welcome.decode(), welcome.owner == alice_id, welcome.position.index]
    bob.call("Ack", positions=[{"channel_id": channel, "index": welcome.position.index}])
    pushes.cancel()

    # A message: pushed, acknowledged, and in the chain of hashes.
    pushes = bob.subscribe(channel_ids=[channel])
    seen["resumed"] = next(pushes).resume.channels[0].head
    first = {"channel_id": channel, "slot": 1, "message_id": os.urandom(16), "counter": 1, "ciphertext": b"to bob"}
    seen["sent"] = [alice.call("SendMessage", **first).index, alice.call("SendMessage", **first).index]
    message = next(pushes).deliver_message
    seen["received"] = [message.index, message.counter, message.sender == alice_id, message.ciphertext.decode()]
    bob.call("Ack", positions=[{"channel_id": channel, "index": message.index}])
    state = bob.call("Resume", channel_ids=[channel]).channels[0]
    expected = chain_next(welcome.position.hash, "message", alice_id, message.message_id, message.ciphertext)
    seen["cursor"] = [state.cursor.index, state.cursor.hash == expected, state.last_counter]

    # Refusals say what is needed to go on.
    wrong = {**first, "message_id": os.urandom(16)}
    *status, error = refusal(alice, "SendMessage", **{**wrong, "counter": 7})
    seen["outOfOrder"] = [*status, error.last_counter]
    *status, error = refusal(alice, "SendMessage", **{**wrong, "counter": 2, "slot": 9})
    seen["epochMismatch"] = [*status, error.head]

    # The same by a session of cells, with an envelope of several.
    session = alice.session()
    seen["session"] = session.open(alice_key, target["tokens"][0]).agent_id == alice_id
    seen["ping"] = session.ping(b"are you there")
    seen["state"] = session.request("resume", channel_ids=[channel]).resume.channels[0].last_counter
    long = {**wrong, "counter": 2, "ciphertext": os.urandom(5000)}
    seen["long"] = session.request("send_message", **long).send_message.index
    seen["longReceived"] = next(pushes).deliver_message.ciphertext == long["ciphertext"]
    try:
        session.request("send_message", **{**wrong, "message_id": os.urandom(16), "counter": 9})
    except Refused as refused:
        seen["refusedThere"] = [refused.error.code, refused.error.last_counter]
    seen["end"] = session.end().name
    seen["notACell"] = alice.session().status_after(bytes(1000)).name

    # The end.
    seen["notTheOwner"] = refusal(bob, "DeleteChannel", channel_id=channel)[:2]
    alice.call("DeleteChannel", channel_id=channel)
    seen["deleted"] = next(pushes).channel_deleted.name
    seen["gone"] = bob.call("Resume", channel_ids=[channel]).channels[0].error.code
    for relay in (alice, bob):
        relay.close()
    print(json.dumps(seen))


def refusal(relay, method, **fields):
    """The status, the code and the whole error of a call that must be refused."""
    try:
        relay.call(method, **fields)
    except Refused as refused:
        return [refused.status.name, refused.error.code, refused.error]
    raise AssertionError(f"{method} was not refused")


def tls_versions(target):
    """What is spoken with a client that may choose, and with one that knows TLS 1.2 only."""
    context = ssl.create_default_context(cafile=target["ca"])
    context.set_alpn_protocols(["h2"])
    spoken = []
    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        context.maximum_version = newest
        try:
            with socket.create_connection((target["host"], target["port"]), timeout=10) as plain:
                with context.wrap_socket(plain, server_hostname=target["serverName"]) as secure:
                    spoken.append([secure.version(), secure.selected_alpn_protocol()])
        except ssl.SSLError:
            spoken.append(None)
    return spoken


main()
