"""One agent of the bench in Python: does what it is told, a line of JSON each, and says what it cost."""

import base64
import json
import os
import sys
import threading
import time

from static_sdk import StaticClient

PAYLOAD = bytes([7]) * 1024
TICKS = os.sysconf("SC_CLK_TCK")


def tell(told):
    print(json.dumps(told), flush=True)


def cpu(client):
    """Microseconds that this process and its driver have used."""
    with open(f"/proc/{client._connection.pid}/stat") as stat:
        fields = stat.read().split(") ")[1].split()
    own = os.times()
    return int((own.user + own.system + (int(fields[11]) + int(fields[12])) / TICKS) * 1e6)


def send(channel, count, window):
    """Sends so many, from as many threads as may be under way at once."""
    left = iter(range(count))

    def lane():
        for _ in left:
            channel.send(PAYLOAD)

    lanes = [threading.Thread(target=lane) for _ in range(window)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()


def receive(channel, count):
    for received, envelope in enumerate(channel.envelopes(), 1):
        if received == count:
            envelope.settle()
            return


def echo(channel):
    for payload in channel.messages():
        channel.send(payload)


def round_trips(channel, count):
    """Round trips, one after the other, in milliseconds."""
    times = []
    with channel.envelopes() as envelopes:
        for _ in range(count):
            start = time.perf_counter()
            channel.send(PAYLOAD)
            envelope = next(envelopes)
            times.append((time.perf_counter() - start) * 1000)
            envelope.settle()
    return times


def main():
    options = json.loads(sys.stdin.readline())
    client = StaticClient(
        options["endpoint"],
        options["dataDir"],
        options["identity"].encode(),
        options["apiKey"],
        options["apiUrl"],
        ca=options["ca"],
    )
    channel = None
    echoing = None
    tell({"type": "done", "cpu": 0})
    with client:
        for line in sys.stdin:
            ask = json.loads(line)
            do = ask["type"]
            before = cpu(client)
            if do == "keyPackage":
                tell({"type": "bytes", "base64": base64.b64encode(client.generate_key_package()).decode()})
                continue
            if do == "add":
                welcomes = [channel.add_member(base64.b64decode(package)) for package in ask["keyPackages"]]
                tell({"type": "welcomes", "base64": [base64.b64encode(welcome).decode() for welcome in welcomes]})
                continue
            if do == "roundTrips":
                tell({"type": "times", "times": round_trips(channel, ask["count"])})
                continue
            if do == "create":
                channel = client.create_channel(ask["name"])
            elif do == "join":
                channel = client.join_channel(ask["name"], base64.b64decode(ask["welcome"]))
            elif do == "send":
                send(channel, ask["count"], ask["window"])
            elif do == "receive":
                receive(channel, ask["count"])
            elif do == "echo":
                echoing = threading.Thread(target=echo, args=(channel,))
                echoing.start()
            elif do == "stopEcho":
                channel.close()
                echoing.join()
            tell({"type": "done", "cpu": cpu(client) - before})


main()
