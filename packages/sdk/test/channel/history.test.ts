import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sha256 } from '#platform/crypto'
import { type ChainEntry, chainNext, chainStart, fromHex, toHex } from '@static/protocol'
import fc from 'fast-check'
import { encodeFrame, type Frame } from '../../src/channel/sending/message-frame.ts'
import { type Difference, History } from '../../src/channel/log/history.ts'
import { SEED } from '@static/testkit/random'

const ZERO = new Uint8Array(32)
const START = { index: 0, hash: chainStart(sha256, new Uint8Array(16)), slot: 0 }
const ANN = 'aa'.repeat(32)
const BOB = 'bb'.repeat(32)

/** An entry of the log as the relay delivers it; the frame is what its ciphertext holds. */
interface Entry {
  readonly sender: string
  readonly messageId: Uint8Array
  readonly body: Uint8Array
  readonly frame: Frame & { readonly kind: 'payload' }
}

/** A member with its own view of the log. */
class Member {
  readonly agent: string
  readonly history: History
  readonly found: Difference[] = []
  #counter = 0
  #ownHash: Uint8Array = ZERO
  #sent = 0

  constructor(agent: string, history = new History(START)) {
    this.agent = agent
    this.history = history
  }

  say(words: string): Entry {
    const messageId = sha256(Buffer.from(`${this.agent} ${this.#sent++}`)).subarray(0, 16)
    const { index, hash } = this.history.position
    const frame = {
      kind: 'payload',
      messageId,
      counter: ++this.#counter,
      previous: this.#ownHash,
      seen: { index, hash },
      payload: Buffer.from(words),
    } as const
    const body = encodeFrame(frame)
    this.#ownHash = sha256(body)
    return { sender: this.agent, messageId, body, frame }
  }

  /** As the follower does: judged, heard, then in the chain. */
  take({ sender, messageId, body, frame }: Entry): Difference | undefined {
    let difference: Difference | undefined
    if (sender !== this.agent) {
      difference = this.history.judge(sender, frame)
      this.history.record(sender, frame, sha256(encodeFrame(frame)))
      if (difference) this.found.push(difference)
    }
    this.history.advance({ kind: 'message', sender: fromHex(sender), messageId, bodyHash: sha256(body) })
    return difference
  }
}

test('the chain is that of the protocol, and commits advance the slot', () => {
  const entry = fc.record<ChainEntry>({
    kind: fc.constantFrom('message', 'commit', 'leave'),
    sender: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    messageId: fc.uint8Array({ maxLength: 16 }),
    bodyHash: fc.uint8Array({ minLength: 32, maxLength: 32 }),
  })
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 30 }), (entries) => {
      const history = new History(START)
      let { hash } = START
      for (const entry of entries) {
        history.advance(entry)
        hash = chainNext(sha256, hash, entry)
      }
      assert.equal(toHex(history.position.hash), toHex(hash))
      assert.equal(history.position.index, entries.length)
      assert.equal(history.position.slot, entries.filter(({ kind }) => kind === 'commit').length)
    }),
    { seed: SEED },
  )
})

test('the position a sender has seen is equal, different, too old to compare, or in the future', () => {
  const ann = new Member(ANN)
  const bob = new Member(BOB)
  for (let n = 0; n < 1100; n++) {
    const entry = bob.say(`${n}`)
    ann.take(entry)
    bob.take(entry)
  }
  const frame = (index: number, hash: Uint8Array): Frame => ({
    ...new Member('cc').say('x').frame,
    seen: { index, hash },
  })
  const { index, hash } = ann.history.position
  const judge = (index: number, hash: Uint8Array): Difference | undefined => ann.history.judge('cc', frame(index, hash))
  assert.equal(judge(index, hash), undefined)
  assert.equal(judge(index, ZERO), 'seen')
  assert.equal(judge(index - 1, hash), 'seen')
  assert.equal(judge(index + 1, hash), 'seen')
  // 1,024 hashes are kept.
  assert.equal(judge(index - 1023, ZERO), 'seen')
  assert.equal(judge(index - 1024, ZERO), undefined)
  assert.equal(judge(0, ZERO), undefined)
})

test('a joiner compares from the position where it joined', () => {
  const joiner = new History({ index: 10, hash: sha256(Buffer.from('ten')), slot: 2 })
  const { frame } = new Member(ANN).say('x')
  const judge = (index: number, hash: Uint8Array): Difference | undefined =>
    joiner.judge(ANN, { ...frame, seen: { index, hash } })
  assert.equal(judge(9, ZERO), undefined)
  // The relay's word is contradicted.
  assert.equal(judge(10, ZERO), 'seen')
  assert.equal(judge(10, sha256(Buffer.from('ten'))), undefined)
})

test('the first message of a sender sets its counter and chain, and later ones must follow', () => {
  const ann = new Member(ANN)
  const entries = Array.from({ length: 6 }, (_, n) => ann.say(`${n}`))
  const late = new Member(BOB)
  assert.equal(late.take(entries[2]!), undefined)
  assert.equal(late.history.sender(ANN)?.counter, 3)
  // One is missing, one comes again, one is of another chain.
  assert.equal(late.history.judge(ANN, entries[4]!.frame), 'counter')
  assert.equal(late.history.judge(ANN, entries[2]!.frame), 'counter')
  assert.equal(late.history.judge(ANN, { ...entries[3]!.frame, previous: ZERO }), 'own chain')
  assert.equal(late.take(entries[3]!), undefined)
  // Added again it starts anew.
  late.history.forget(ANN)
  assert.equal(late.history.sender(ANN), undefined)
  assert.equal(late.take(entries[0]!), undefined)
  assert.equal(late.take(entries[1]!), undefined)
})

test('the progress of senders survives a restart', () => {
  const ann = new Member(ANN)
  const bob = new Member(BOB)
  const [first, second] = [ann.say('1'), ann.say('2')]
  bob.take(first)
  const again = new Member(BOB, new History(bob.history.position, [bob.history.sender(ANN)!]))
  assert.equal(again.history.judge(ANN, { ...second.frame, counter: 3 }), 'counter')
  assert.equal(again.take(second), undefined)
})

test('after a gap nothing before it is compared, and every sender may continue from anywhere', () => {
  const ann = new Member(ANN)
  const bob = new Member(BOB)
  const entries = Array.from({ length: 20 }, (_, n) => {
    const entry = ann.say(`${n}`)
    ann.take(entry)
    return entry
  })
  bob.take(entries[0]!)
  const before = ann.history.position
  assert.deepEqual(bob.history.skipTo(before), [ANN])
  assert.deepEqual(bob.history.position, before)
  assert.equal(bob.history.judge(ANN, { ...ann.say('x').frame, seen: { index: 3, hash: ZERO } }), undefined)
  assert.equal(bob.history.judge(ANN, { ...ann.say('x').frame, seen: { index: 20, hash: ZERO } }), 'seen')
  assert.equal(bob.take(ann.say('after')), undefined)
})

test('a repeated message is recognized, even after a gap and after a restart', () => {
  const ann = new Member(ANN)
  const bob = new Member(BOB)
  const [first, second] = [ann.say('1'), ann.say('2')]
  assert.equal(bob.history.repeats(ANN, first.frame), false)
  bob.take(first)
  bob.take(second)
  bob.history.skipTo({ ...bob.history.position, index: 7 })
  const again = new History(bob.history.position, [bob.history.sender(ANN)!])
  for (const history of [bob.history, again]) {
    for (const { frame } of [first, second]) {
      assert.equal(history.repeats(ANN, frame), true)
      assert.equal(history.judge(ANN, frame), 'counter')
    }
    // What was said in the gap is not known, only that it was said.
    const next = { ...second.frame, counter: 9, previous: ZERO }
    assert.equal(history.repeats(ANN, next), false)
    assert.equal(history.judge(ANN, next), undefined)
    history.forget(ANN)
    assert.equal(history.repeats(ANN, first.frame), false)
  }
})

test('an accepted member is not compared until it is removed, but its messages are not delivered twice', () => {
  const ann = new Member(ANN)
  const bob = new Member(BOB)
  const first = { ...ann.say('1'), frame: { ...ann.say('1').frame, seen: { index: 0, hash: ZERO } } }
  assert.equal(bob.take(first), 'seen')
  bob.history.accept(ANN)
  const second = { ...ann.say('2').frame, previous: sha256(encodeFrame(first.frame)), seen: { index: 1, hash: ZERO } }
  assert.equal(bob.history.judge(ANN, second), undefined)
  assert.equal(bob.history.judge(ANN, { ...second, counter: 9 }), undefined)
  assert.equal(bob.history.judge(ANN, second, 9), undefined, 'another counter in the envelope')
  assert.equal(bob.history.judge(ANN, { ...second, previous: ZERO }), undefined)
  assert.equal(bob.history.judge(ANN, first.frame), undefined)
  assert.equal(bob.history.repeats(ANN, first.frame), true)
  const again = new History(bob.history.position, [bob.history.sender(ANN)!])
  assert.equal(again.judge(ANN, second), undefined, 'after a restart')
  again.skipTo({ ...bob.history.position, index: 7 })
  assert.equal(again.judge(ANN, { ...second, seen: { index: 7, hash: ZERO } }), undefined, 'after a gap')
  // With a new leaf it counts from 1 again, and is still not compared.
  bob.history.restart(ANN)
  assert.equal(bob.history.hasHeard(ANN), false)
  assert.equal(bob.history.repeats(ANN, first.frame), false)
  assert.equal(bob.history.judge(ANN, first.frame), undefined, 'with a new leaf')
  // A member that comes back is judged like all others.
  bob.history.forget(ANN)
  assert.equal(bob.history.judge(ANN, second), 'seen')
  bob.history.restart(ANN)
  assert.equal(bob.history.judge(ANN, second), 'seen')
})

test('an accepted sender confirms nothing, and no other confirms more than there is', () => {
  const ann = new Member(ANN)
  const bob = new Member(BOB)
  const said = ann.say('1')
  const far = { ...said.frame, seen: { index: 2 ** 40, hash: ZERO } }
  bob.history.record(ANN, far, ZERO)
  assert.equal(bob.history.confirmed, 0)
  bob.take(said)
  const { index, hash } = bob.history.position
  bob.history.accept(ANN)
  bob.history.record(ANN, { ...far, counter: 2, seen: { index, hash } }, ZERO)
  assert.equal(bob.history.confirmed, 0)
})

/** Who speaks next, and who catches up before. */
const turns = fc.array(fc.record({ who: fc.nat({ max: 3 }), catchUp: fc.nat({ max: 3 }) }), {
  minLength: 4,
  maxLength: 40,
})

test('honest members never detect a difference, however their actions interleave', (t) => {
  t.diagnostic(`seed ${SEED}`)
  fc.assert(
    fc.property(turns, (turns) => {
      const { members, log } = talk(turns)
      for (const member of members) for (const entry of log.slice(member.history.position.index)) member.take(entry)
      for (const member of members) assert.deepEqual(member.found, [])
      assert.equal(new Set(members.map(({ history }) => toHex(history.position.hash))).size, 1)
    }),
    { seed: SEED, numRuns: 300 },
  )
})

const ALTERATIONS = ['drop', 'swap', 'body', 'sender', 'id'] as const

test("a single change to one member's log is detected by the next message of any member", (t) => {
  t.diagnostic(`seed ${SEED}`)
  fc.assert(
    fc.property(turns, fc.nat(), fc.constantFrom(...ALTERATIONS), (turns, place, alteration) => {
      const { log } = talk(turns)
      const [victim, ...others] = freshMembers() as [Member, Member, Member, Member]
      const at = place % log.length
      const altered = alter(log, at, alteration, victim.agent)
      if (!altered) return
      for (const member of others) for (const entry of log) member.take(entry)
      for (const entry of altered) victim.take(entry)
      for (const { found } of others) assert.deepEqual(found, [])
      // What another says next covers what the victim was not shown.
      const spoken = others[0].say('next')
      assert.notEqual(victim.history.judge(spoken.sender, spoken.frame), undefined)
      // And the other way round, but for the last entry withheld: that the victim has not heard of it is no lie.
      if (alteration === 'drop' && at === log.length - 1) return
      const answer = victim.say('next')
      for (const { history } of others) assert.equal(history.judge(victim.agent, answer.frame), 'seen')
    }),
    { seed: SEED, numRuns: 300 },
  )
})

function freshMembers(): Member[] {
  return [0, 1, 2, 3].map((n) => new Member(`${n}${n}`.repeat(32)))
}

/** A log that honest members have made, each behind it by as much as it happened. */
function talk(turns: readonly { who: number; catchUp: number }[]): { members: Member[]; log: Entry[] } {
  const members = freshMembers()
  const log: Entry[] = []
  const catchUp = (member: Member): void => {
    for (const entry of log.slice(member.history.position.index)) member.take(entry)
  }
  for (const [n, turn] of turns.entries()) {
    catchUp(members[turn.catchUp]!)
    log.push(members[turn.who]!.say(`${n}`))
  }
  return { members, log }
}

/** The log with one change; undefined where there is nothing to change. */
function alter(
  log: readonly Entry[],
  at: number,
  how: (typeof ALTERATIONS)[number],
  victim: string,
): Entry[] | undefined {
  const entry = log[at]!
  const next = log[at + 1]
  switch (how) {
    case 'drop':
      return log.toSpliced(at, 1)
    case 'swap':
      return next && log.toSpliced(at, 2, next, entry)
    case 'body':
      return log.toSpliced(at, 1, { ...entry, body: Buffer.concat([entry.body, Buffer.from('!')]) })
    case 'sender':
      return log.toSpliced(at, 1, { ...entry, sender: entry.sender === victim ? 'ee'.repeat(32) : 'ff'.repeat(32) })
    case 'id':
      return log.toSpliced(at, 1, { ...entry, messageId: new Uint8Array(16).fill(9) })
  }
}
