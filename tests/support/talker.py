"""An agent that joins a channel, sends what its parent writes, and prints what was stored and what has arrived."""

import json
import sys
import threading

from static_sdk import StaticChannelManager

PRINTING = threading.Lock()


def say(**told):
    with PRINTING:
        print(json.dumps(told), flush=True)


def listen(manager, channel, over):
    while not over.is_set():
        payload = manager.receive(channel, 0.5)
        if payload is not None:
            say(received=payload.decode())


def main():
    task = json.loads(sys.stdin.readline())
    channel = task["channel"]
    over = threading.Event()
    with StaticChannelManager(**task["options"]) as manager:
        manager.join_with_token(channel, task["token"])
        say(joined=True)
        listener = threading.Thread(target=listen, args=(manager, channel, over))
        listener.start()
        for line in sys.stdin:
            text = line.rstrip("\n")
            manager.send(channel, text)
            say(sent=text)
        over.set()
        listener.join()


main()
