/** The chain of the log with nine who send at once: honest relays raise no alarm, and lying ones never go unnoticed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sha256 } from '#platform/crypto'
import { chainStart, fromHex, toHex } from '@static/protocol'
import { encodeFrame, type Frame } from '../../src/channel/sending/message-frame.ts'
import { type Difference, History } from '../../src/channel/log/history.ts'
import { randomNumbers, SEED } from '@static/testkit/random'
import { LyingSystem } from '../support/lying-system.ts'
import { text } from '../support/test-system.ts'

const MEMBERS = 9
const IN_FLIGHT = 8
/** More of everything with STATIC_LONG=1. */
const LONG = process.env['STATIC_LONG'] === '1'
const ENTRIES = LONG ? 100_000 : 10_000
const SEEDS = Number(process.env['STATIC_SEEDS'] ?? (LONG ? 20 : 8))
const EACH = LONG ? 220 : 40
const START = { index: 0, hash: chainStart(sha256, new Uint8Array(16)), slot: 0 }

type PayloadFrame = Frame & { readonly kind: 'payload' }

/** What the relay logs: a message, whose body would be encrypted, or a commit. */
interface Entry {
  readonly kind: 'message' | 'commit'
  readonly sender: Member
  readonly messageId: Uint8Array
  readonly bodyHash: Uint8Array
  /** Undefined for a commit, and for what does not decrypt. */
  readonly frame: PayloadFrame | undefined
}

/** A member, as far as the log concerns it. */
class Member {
  readonly agent: string
  readonly id: Uint8Array
  readonly history = new History(START)
  readonly found: Difference[] = []
  /** How many entries it was given. */
  read = 0
  /** Encrypted, and not taken by the relay. */
  #under: { messageId: Uint8Array; slot: number; entry: Entry }[] = []
  #counter = 0
  #ownHash: Uint8Array = new Uint8Array(32)
  #base: { counter: number; ownHash: Uint8Array } | undefined
  #made = 0

  constructor(at: number) {
    this.agent = toHex(sha256(Buffer.from([at])))
    this.id = fromHex(this.agent)
  }

  /** Encrypts a message: it tells what this member has seen by now. */
  make(): void {
    if (this.#under.length >= IN_FLIGHT) return
    this.#base ??= { counter: this.#counter, ownHash: this.#ownHash }
    this.#seal(sha256(Buffer.from(`${this.agent} ${this.#made++}`)).subarray(0, 16))
  }

  /** What it sends next, if that is of the relay's slot; otherwise all of it is encrypted anew, in order. */
  next(head: number): Entry | undefined {
    const [first] = this.#under
    if (!first || this.history.position.slot !== head) return undefined
    if (first.slot !== head) {
      const again = this.#under.map(({ messageId }) => messageId)
      this.#under = []
      ;({ counter: this.#counter, ownHash: this.#ownHash } = this.#base!)
      for (const messageId of again) this.#seal(messageId)
    }
    const { entry } = this.#under.shift()!
    this.#base = this.#under.length === 0 ? undefined : { counter: entry.frame!.counter, ownHash: entry.bodyHash }
    return entry
  }

  commit(): Entry {
    const messageId = sha256(Buffer.from(`${this.agent} commit ${this.#made++}`)).subarray(0, 16)
    return { kind: 'commit', sender: this, messageId, bodyHash: sha256(messageId), frame: undefined }
  }

  /** As the follower does. */
  take({ kind, sender, messageId, bodyHash, frame }: Entry): void {
    if (sender !== this && frame) {
      const difference = this.history.judge(sender.agent, frame)
      if (difference) this.found.push(difference)
      this.history.record(sender.agent, frame, bodyHash)
    }
    this.history.advance({ kind, sender: sender.id, messageId, bodyHash })
  }

  #seal(messageId: Uint8Array): void {
    const seen = this.history.position
    const counter = ++this.#counter
    const frame = { kind: 'payload', messageId, counter, previous: this.#ownHash, seen, payload: messageId } as const
    this.#ownHash = sha256(encodeFrame(frame))
    const entry: Entry = { kind: 'message', sender: this, messageId, bodyHash: this.#ownHash, frame }
    this.#under.push({ messageId, slot: seen.slot, entry })
  }
}

/** What a member is given in place of what comes next in the log, and how much of the log that stands for. */
type Attack = (log: readonly Entry[], at: number, victim: Member) => { shown: Entry[]; taken: number } | undefined

interface Run {
  readonly members: readonly Member[]
  readonly log: readonly Entry[]
  /** Where the victim was lied to. */
  readonly liedAt: number | undefined
}

/** Lets members do things in an order that chance decides, until there are so many entries and all have read them. */
function run(seed: number, entries: number, commits: number, attack?: Attack): Run {
  const random = randomNumbers(seed)
  const members = Array.from({ length: MEMBERS }, (_, at) => new Member(at))
  const victim = members[MEMBERS - 1]!
  const log: Entry[] = []
  let head = 0
  let liedAt: number | undefined
  const read = (member: Member): void => {
    const lie = attack && member === victim && liedAt === undefined && member.read > 100
    const lied = lie ? attack(log, member.read, victim) : undefined
    if (lied) liedAt = member.read
    for (const entry of lied?.shown ?? [log[member.read]!]) member.take(entry)
    member.read += lied?.taken ?? 1
  }
  while (log.length < entries) {
    const member = members[Math.floor(random() * MEMBERS)]!
    const action = random()
    // For a while, in long runs, one only sends, and falls behind by more than anybody keeps hashes of.
    const isQuiet = log.length % 4000 > 2000
    if (action < 0.15) member.make()
    else if (action < 0.3) {
      const entry = member.next(head)
      if (entry) log.push(entry)
    } else if (action < 0.3 + commits) {
      // The victim's own commits would be of another epoch, which is another way of being found out.
      if (isQuiet || member === victim || member.history.position.slot !== head) continue
      log.push(member.commit())
      head++
    } else if (member.read < log.length && !(isQuiet && member === victim)) read(member)
  }
  for (const member of members) while (member.read < log.length) read(member)
  return { members, log, liedAt }
}

test(`${MEMBERS} senders at once and an honest relay: no alarm in ${ENTRIES} entries`, (t) => {
  t.diagnostic(`seed ${SEED}`)
  const { members, log } = run(SEED, ENTRIES, 0.002)
  assert.ok(log.filter(({ kind }) => kind === 'commit').length > 50)
  for (const { found } of members) assert.deepEqual(found, [])
  assert.equal(new Set(members.map(({ history }) => toHex(history.position.hash))).size, 1)
})

const isOf = (entry: Entry | undefined, victim: Member): entry is Entry =>
  entry?.kind === 'message' && entry.sender !== victim

const ATTACKS: Readonly<Record<string, Attack>> = {
  drop: (log, at, victim) => (isOf(log[at], victim) ? { shown: [], taken: 1 } : undefined),
  alter: (log, at, victim) => {
    const entry = log[at]
    if (!isOf(entry, victim)) return undefined
    return { shown: [{ ...entry, bodyHash: sha256(entry.bodyHash), frame: undefined }], taken: 1 }
  },
  swap: (log, at, victim) => {
    const [one, other] = [log[at], log[at + 1]]
    if (!isOf(one, victim) || !isOf(other, victim) || one.sender === other.sender) return undefined
    return { shown: [other, one], taken: 2 }
  },
  'swap just before a commit': (log, at, victim) =>
    log[at + 2]?.kind === 'commit' ? ATTACKS['swap']!(log, at, victim) : undefined,
}

for (const [name, attack] of Object.entries(ATTACKS)) {
  test(`${name}: detected in all ${SEEDS} runs`, (t) => {
    t.diagnostic(`seeds ${SEED} to ${SEED + SEEDS - 1}`)
    for (let seed = SEED; seed < SEED + SEEDS; seed++) {
      const { members, liedAt } = run(seed, 600, 0.02, attack)
      assert.ok(liedAt !== undefined && liedAt < 500, `seed ${seed}: the relay did not lie in time (${liedAt})`)
      assert.ok(members.at(-1)!.found.length > 0, `seed ${seed}: the victim did not notice`)
      // Whoever hears the victim notices, too.
      const others = members.slice(0, -1)
      assert.ok(
        others.some(({ found }) => found.length > 0),
        `seed ${seed}: the others did not notice`,
      )
    }
  })
}

test(`${MEMBERS} agents that all send and re-key at once over an honest relay: no alarm`, async (t) => {
  const world = LyingSystem.start(t, { tape: false })
  const names = Array.from({ length: MEMBERS }, (_, at) => `agent-${at}`)
  const clients = await world.agents(...names)
  const { room, channels } = await world.channel(clients)
  const alarms: string[] = []
  for (const client of clients) {
    void (async () => {
      for await (const { type } of client.events()) {
        if (/fork|failure|failed|skipped|lie|gap/.test(type)) alarms.push(type)
      }
    })()
  }
  const sending = channels.map(async (channel, at) => {
    for (let count = 0; count < EACH; count += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, more) => channel.send(`${at} ${count + more}`)))
      if (count % 30 === 0 && at % 3 === 0) await channel.rotate()
    }
  })
  const reading = channels.map(async (channel) => {
    const got: string[] = []
    for await (const payload of channel.messages()) {
      got.push(text(payload))
      if (got.length === EACH * (MEMBERS - 1)) break
    }
    return got
  })
  await Promise.all(sending)
  for (const [at, got] of (await Promise.all(reading)).entries()) {
    for (const other of channels.keys()) {
      const expected = other === at ? [] : Array.from({ length: EACH }, (_, count) => `${other} ${count}`)
      assert.deepEqual(
        got.filter((words) => words.startsWith(`${other} `)),
        expected,
      )
    }
  }
  assert.ok(room.log.length > (MEMBERS * EACH) / 10)
  await world.agree(
    room,
    channels,
    clients.map(({ agentId }) => agentId),
  )
  assert.deepEqual(alarms, [])
})
