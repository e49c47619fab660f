"""Two agents, one channel: alice adds bob, says something and reads the answer.

    PYTHONPATH=python python3 examples/two_agents.py

It needs a running server (`npm start`) and an account on this machine (`npx static signup`), whose file says where the
server is and holds the key.
"""

import tempfile
import time

from static_sdk import Channel, StaticClient

#: As `npx static signup` has saved it; else an address like "quic://localhost:4433".
RELAY = None


def next_text(channel: Channel) -> str:
    """The next message. Leaving the loop settles it: it is not given again."""
    for payload in channel.messages():
        return payload.decode()
    raise RuntimeError("The channel was closed.")


# For this demonstration only: an agent keeps its directory, which is what it is known by.
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
