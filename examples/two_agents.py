"""Two agents, one channel: alice adds bob, sends a message and reads the reply.

    PYTHONPATH=python python3 examples/two_agents.py

Requires a running server (`npm start`) and an account on this machine (`npx static signup`). The program reads the
server's address and the key from the account's file.
"""

import tempfile
import time

from static_sdk import Channel, StaticClient

#: None uses the address that `npx static signup` saved. Otherwise an address like "quic://localhost:4433".
RELAY = None


def next_text(channel: Channel) -> str:
    """Returns the next message as text, and settles it, so that it is not delivered again."""
    for envelope in channel.envelopes():
        envelope.settle()
        return envelope.text()
    raise RuntimeError(f"Channel {channel.name} was closed.")


# Only for this demo: a real agent keeps its directory, which holds its identity.
with tempfile.TemporaryDirectory() as home, StaticClient(RELAY, f"{home}/alice", b"alice") as alice, StaticClient(
    RELAY, f"{home}/bob", b"bob"
) as bob:
    channel = alice.create_channel(f"acme/examples/python-{time.time_ns()}")
    welcome = channel.add_member(bob.generate_key_package())
    joined = bob.join_channel(channel.name, welcome, owner=alice.fingerprint())

    channel.send(b"Where is order 4711?")
    print("bob hears:", next_text(joined))
    joined.send(b"On its way.")
    print("alice hears:", next_text(channel))
    channel.delete()
