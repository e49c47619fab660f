"""The agent of `child.ts` in Python: the same orders, and a history of the same form."""

import json
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from static_sdk import StaticChannelManager, StaticError

TASK = json.loads(sys.argv[-1])
ENDS = ("removed", "not_found", "closed")
DULL = ("connected", "disconnected", "receipt", "waiting", "lagging", "throttled")
MOST_AT_ONCE = 6
MOST_OPEN = 3
MOST_RECEIPTS = 2
RECEIPT_SECONDS = 60
LONG, SHORT = 100_000, 3


class Journal:
    """An agent's own history, and what it remembers of earlier lives."""

    def __init__(self, path):
        notes = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                notes = [json.loads(line) for line in file.read().split("\n")[:-1]]
        ended = {note["ask"] for note in notes if note["is"] in ("answered", "unanswered", "unasked")}
        stays = [note["is"] for note in notes if note["is"] in ("joined", "out")]
        outs = [at for at, note in enumerate(notes) if note["is"] == "out"]
        stay = notes[outs[-1] + 1 :] if outs else notes
        asking = [note for note in stay if note["is"] in ("asking", "asked")]
        numbers = [int(note["text"].split(" ")[-1]) for note in notes if note["is"] in ("sending", "asking")]
        self.count = max(numbers, default=0)
        self.is_member = stays[-1:] == ["joined"]
        # The invite by which it was about to join, if it is not known what became of it.
        self.pending = None
        for note in notes:
            self._follow(note)
        self.asks = [note for note in stay if note["is"] == "asked" and note["ask"] not in ended]
        self.asking = asking[-1] if asking and asking[-1]["is"] == "asking" else None
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()

    def note(self, kind, **said):
        note = {"at": time.monotonic_ns() / 1e6, "is": kind, **said}
        with self._lock:
            self._follow(note)
            os.write(self._file, f"{json.dumps(note)}\n".encode())

    def _follow(self, note):
        if note["is"] == "joining":
            self.pending = note["invite"]
        elif note["is"] in ("joined", "out"):
            self.pending = None

    def next(self):
        with self._lock:
            self.count += 1
            return self.count


JOURNAL = Journal(TASK["file"])
CHANCE = random.Random(TASK["seed"] + JOURNAL.count)
PRINTING = threading.Lock()


def reply(**line):
    with PRINTING:
        print(json.dumps(line), flush=True)


def die(error):
    """What nobody waits for, or a store that fails: the machine starts it again."""
    JOURNAL.note("died", why=f"{getattr(error, 'code', type(error).__name__)}: {error}")
    os._exit(3)


def start(work, *words):
    """Runs something in a thread of its own. Errors that end a stay as they should are no errors."""

    def run():
        try:
            work(*words)
        except StaticError as error:
            if error.code not in ENDS:
                die(error)
        except BaseException as error:
            die(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class Stay:
    """A member at work, from joining a channel, or the start of the process, to its end."""

    def __init__(self, channel, agent, ended):
        self.channel = channel
        self.pace = 0
        self._agent = agent
        self._ended = ended
        self._is_talking = False
        self._is_over = False
        self._talking = None
        self._open = []
        self._receipts = []
        self._senders = ThreadPoolExecutor(MOST_AT_ONCE)
        self._resume()
        start(self._read)
        start(self.channel.serve, self._serve)

    def talk(self):
        if not self._is_talking:
            self._is_talking = True
            self._talking = start(self._talk)

    def hush(self):
        self._is_talking = False
        if self._talking:
            self._talking.join()
        for thread in self._open:
            thread.join()

    def _read(self):
        why = "closed"
        try:
            for envelope in self.channel.envelopes():
                JOURNAL.note(
                    "read",
                    text=envelope.text(),
                    id=envelope.message_id,
                    index=envelope.index,
                    epoch=envelope.epoch,
                    **{"from": envelope.sender.agent_id},
                    again=envelope.redelivered,
                )
                time.sleep(self.pace)
        except StaticError as error:
            why = error.code
            if why not in ENDS:
                raise
        self._is_over = True
        self._ended(why)

    def _talk(self):
        while self._is_talking and not self._is_over:
            length = 1 + CHANCE.randrange(MOST_AT_ONCE) if CHANCE.randrange(4) == 0 else 1
            sent = list(self._senders.map(lambda _: self._send(), range(length)))
            self._receipts = [thread for thread in self._receipts if thread.is_alive()]
            if sent[-1] and len(self._receipts) < MOST_RECEIPTS:
                self._receipts.append(start(self._await_receipts, sent[-1]))
            if CHANCE.randrange(3) == 0:
                self._ask()
            time.sleep(TASK["pauseMs"] / 1000)

    def _send(self):
        text = f"{TASK['name']} {JOURNAL.next()}"
        JOURNAL.note("sending", text=text)
        try:
            sent = self.channel.send_envelope(text)
        except StaticError as error:
            JOURNAL.note("refused", text=text, code=error.code)
            if error.code not in ENDS:
                raise
            self._is_over = True
            return None
        JOURNAL.note("sent", text=text, id=sent.message_id, index=sent.index)
        return sent

    def _await_receipts(self, sent):
        try:
            answer = self.channel.reached(sent, "settled", timeout=RECEIPT_SECONDS)
        except StaticError as error:
            if error.code != "cancelled":
                raise
            return
        unreached = [f"{one.agent_id} {one.reason}" for one in answer.unreached]
        JOURNAL.note("reached", id=sent.message_id, by=answer.reached, **{"not": unreached})

    def _resume(self):
        known = {note["ask"] for note in JOURNAL.asks}
        ids = set()
        for ask in self.channel.asked():
            ids.add(ask.id)
            if ask.id not in known and JOURNAL.asking:
                fields = ("text", "to", "seconds")
                JOURNAL.note("asked", ask=ask.id, **{field: JOURNAL.asking[field] for field in fields})
            self._open.append(start(self._follow, ask))
        for note in JOURNAL.asks:
            if note["ask"] in ids:
                continue
            if note["seconds"] == LONG:
                JOURNAL.note("unasked", ask=note["ask"])
            else:
                JOURNAL.note("unanswered", ask=note["ask"], code="ask_timeout")

    def _ask(self):
        self._open = [thread for thread in self._open if thread.is_alive()]
        others = [one.agent_id for one in self.channel.members() if one.agent_id != self._agent]
        if not others or len(self._open) >= MOST_OPEN:
            return
        to = CHANCE.choice(others)
        seconds = SHORT if CHANCE.randrange(4) == 0 else LONG
        text = f"{TASK['name']} asks {JOURNAL.next()}"
        JOURNAL.note("asking", text=text, to=to, seconds=seconds)
        try:
            ask = self.channel.ask(text, to=to, timeout=seconds)
        except StaticError as error:
            # The member has just left.
            if error.code not in ENDS:
                raise
            return
        JOURNAL.note("asked", ask=ask.id, text=text, to=to, seconds=seconds)
        self._open.append(start(self._follow, ask))

    def _follow(self, ask):
        try:
            for answer in ask:
                sender = {"from": answer.sender.agent_id}
                JOURNAL.note("answer", ask=ask.id, id=answer.message_id, text=answer.text(), **sender)
            JOURNAL.note("answered", ask=ask.id)
        except StaticError as error:
            # Of a request that ends because this agent fails, the next life learns more.
            if error.code in ("ask_timeout", "not_found", "removed"):
                JOURNAL.note("unanswered", ask=ask.id, code=error.code)

    def _serve(self, request):
        JOURNAL.note("served", ask=request.message_id, text=request.text(), again=request.redelivered)
        return f"{request.text()}!"


class Agent:
    """Obeys the machine."""

    def __init__(self, manager):
        self.manager = manager
        self.stay = None
        self.agent = manager.client.agent_id
        self.is_member = JOURNAL.is_member
        self._entering = threading.Lock()

    def begin(self):
        JOURNAL.note("started", agent=self.agent)
        if self._has_channel():
            self.enter(JOURNAL.pending or "own")
        elif self.is_member:
            self.out("gone while it was off")
        start(self._listen)
        start(self._look)
        reply(ready=self.agent)

    def enter(self, invite):
        with self._entering:
            if not self.stay:
                self._enter(invite)

    def _enter(self, invite):
        if not self.is_member:
            JOURNAL.note("joined", invite=invite)
        self.is_member = True
        reply(isMember=True)
        self.stay = Stay(self._channel(), self.agent, lambda why: why == "closed" or self.out(why))

    def out(self, why):
        if self.is_member:
            JOURNAL.note("out", why=why)
        self.is_member = False
        reply(isMember=False)
        self.stay = None
        # The requests of a stay are over with it.
        JOURNAL.asks, JOURNAL.asking = [], None

    def obey(self, number, order):
        try:
            result = getattr(self, f"_{order.pop('order')}")(**order)
            reply(done=number, result=result)
        except StaticError as error:
            reply(failed=number, code=error.code, message=str(error))

    def _listen(self):
        for event in self.manager.client.events():
            if event.type not in DULL:
                JOURNAL.note("event", name=event.type, detail=json.dumps(asdict(event), default=str))

    def _has_channel(self):
        return any(channel.name == TASK["channel"] for channel in self.manager.channels())

    def _look(self):
        """A join that was interrupted, or took too long, goes on by itself."""
        while True:
            time.sleep(0.2)
            invite = None if self.is_member else JOURNAL.pending
            if invite and self._has_channel():
                self.enter(invite)

    def _channel(self):
        return self.manager.client.channel(TASK["channel"])

    def _join(self, invite, token, timeout):
        if self.is_member:
            return
        JOURNAL.note("joining", invite=invite)
        self.manager.join_with_token(TASK["channel"], token, timeout)
        self.enter(invite)

    def _leave(self):
        self._channel().leave()
        self.out("left")

    def _rotate(self):
        self._channel().rotate()

    def _talk(self):
        if self.stay:
            self.stay.talk()

    def _hush(self):
        if self.stay:
            self.stay.hush()

    def _pace(self, ms):
        if self.stay:
            self.stay.pace = ms / 1000

    def _verify(self):
        channel = self._channel()
        channel.catch_up()
        words = channel.verify()
        JOURNAL.note("words", words=words, members=[one.agent_id for one in channel.members()])
        return words


def connect():
    """A killed driver may still hold the database for a moment."""
    for left in range(100, -1, -1):
        try:
            return StaticChannelManager(**TASK["options"], wait=True)
        except StaticError as error:
            if error.code != "store_locked" or left == 0:
                raise
            time.sleep(0.1)


def main():
    try:
        agent = Agent(connect())
        agent.begin()
        for line in sys.stdin:
            order = json.loads(line)
            start(agent.obey, order.pop("n"), order)
    except BaseException as error:
        die(error)
    # Ends with the machine.
    os._exit(0)


main()
