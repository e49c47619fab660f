import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sha256 } from '#platform/crypto'
import { StaticError, toHex } from '@static/protocol'
import fc from 'fast-check'
import { Outbox, type Outgoing } from '../../src/channel/sending/outbox.ts'
import type { OutboxRecord } from '../../src/ports/index.ts'
import { SEED } from '@static/testkit/random'

const ID = '00'.repeat(16)

function record(counter: number, changes: Partial<OutboxRecord> = {}): OutboxRecord {
  return {
    messageId: new Uint8Array(16).fill(counter),
    counter,
    control: false,
    slot: 3,
    fileId: undefined,
    ciphertext: new Uint8Array(100).fill(counter),
    messageKey: new Uint8Array(32).fill(1),
    ...changes,
  }
}

/** An outbox with messages 1 to n, on disk and sent, and what became of each. */
function sent(count: number): { outbox: Outbox; messages: readonly Outgoing[]; told: string[] } {
  const outbox = new Outbox(ID)
  const told: string[] = []
  for (let counter = 1; counter <= count; counter++) {
    outbox.add(record(counter), {
      resolve: () => told.push(`${counter} ok`),
      reject: ({ code }) => told.push(`${counter} ${code}`),
    })
  }
  outbox.drain()
  outbox.written()
  return { outbox, messages: outbox.markSent(), told }
}

test('a message is sent once it is on disk, then answered, and forgotten when its entry arrives', () => {
  const outbox = new Outbox(ID)
  const one = record(1)
  let resolved = false
  outbox.add(one, { resolve: () => (resolved = true), reject: assert.fail })
  assert.deepEqual(outbox.drain(), [{ type: 'putOutbox', id: ID, record: one }])
  assert.deepEqual(outbox.markSent(), [])
  outbox.written()
  const [message] = outbox.markSent()
  assert.equal(message?.state, 'sent')
  assert.deepEqual(outbox.markSent(), [])
  outbox.answer(message, 7)
  assert.equal(resolved, true)
  const bodyHash = sha256(one.ciphertext)
  assert.deepEqual(outbox.drain(), [{ type: 'answerOutbox', id: ID, messageId: one.messageId, bodyHash }])
  assert.deepEqual(one.messageKey, new Uint8Array(32))
  assert.deepEqual(outbox.pass(one.messageId, 7), bodyHash)
  assert.deepEqual(outbox.drain(), [{ type: 'dropOutbox', id: ID, messageId: one.messageId }])
  assert.equal(outbox.pass(one.messageId, 7), undefined)
})

test('an entry that arrives before the answer counts as the answer', () => {
  const { outbox, messages, told } = sent(2)
  const { record } = messages[0]!
  assert.deepEqual(outbox.pass(record.messageId, 7), sha256(record.ciphertext))
  assert.deepEqual(told, ['1 ok'])
  assert.deepEqual(outbox.drain(), [{ type: 'dropOutbox', id: ID, messageId: record.messageId }])
  outbox.answer(messages[0]!, 7)
  assert.deepEqual(told, ['1 ok'])
  assert.equal(outbox.unanswered.length, 1)
})

test('an arriving entry also completes earlier messages, whose entries were lost in a gap', () => {
  const { outbox, messages } = sent(3)
  for (const message of messages) outbox.answer(message, 7)
  outbox.drain()
  assert.ok(outbox.pass(record(2).messageId, 7))
  assert.deepEqual(
    outbox.drain(),
    [1, 2].map((counter) => ({ type: 'dropOutbox', id: ID, messageId: record(counter).messageId })),
  )
  assert.equal(outbox.pass(record(1).messageId, 7), undefined)
  assert.ok(outbox.pass(record(3).messageId, 7))
})

test('messages and bytes in flight are limited, but one message of any size is allowed', () => {
  const { outbox, messages } = sent(64)
  assert.equal(outbox.hasRoom, false)
  outbox.answer(messages[0]!, 7)
  assert.equal(outbox.hasRoom, true)
  const large = new Outbox(ID)
  large.add(record(1, { ciphertext: new Uint8Array(2 * 1024 * 1024) }), undefined)
  assert.equal(large.hasRoom, false)
  large.written()
  large.answer(large.markSent()[0]!, 7)
  assert.equal(large.hasRoom, true)
})

test('a refusal stops sending until all answers have arrived', () => {
  const { outbox, messages } = sent(3)
  outbox.answer(messages[0]!, 7)
  outbox.refuse(messages[1]!, undefined)
  assert.equal(outbox.hasRoom, false)
  assert.equal(outbox.canRecover, false)
  assert.deepEqual(outbox.markSent(), [])
  outbox.refuse(messages[2]!, undefined)
  assert.equal(outbox.canRecover, true)
  outbox.recover(undefined)
  assert.equal(outbox.hasRoom, true)
  assert.deepEqual(
    outbox.markSent().map(({ record }) => record.counter),
    [2, 3],
  )
})

test('failed messages are dropped, and the rest are encrypted again in their place', () => {
  const { outbox, messages, told } = sent(3)
  const before = messages.map(({ record }) => record)
  outbox.refuse(messages[0]!, StaticError.of('quota_exceeded'))
  for (const message of messages.slice(1)) outbox.refuse(message, undefined)
  outbox.drain()
  let counter = 0
  outbox.recover(({ record }) => ({ ...record, counter: ++counter, slot: 4, messageKey: new Uint8Array(32).fill(2) }))
  assert.deepEqual(told, ['1 quota_exceeded'])
  const changes = outbox.drain()
  assert.deepEqual(changes[0], { type: 'dropOutbox', id: ID, messageId: before[0]!.messageId })
  assert.deepEqual(
    changes.slice(1).map((change) => change.type === 'putOutbox' && [change.record.counter, change.record.messageId]),
    [
      [1, before[1]!.messageId],
      [2, before[2]!.messageId],
    ],
  )
  for (const { messageKey } of before) assert.deepEqual(messageKey, new Uint8Array(32))
  // Not before it is on disk.
  assert.deepEqual(outbox.markSent(), [])
  outbox.written()
  assert.equal(outbox.markSent().length, 2)
})

test('after a lost session the same bytes are sent again', () => {
  const { outbox, messages } = sent(3)
  outbox.answer(messages[0]!, 7)
  outbox.refuse(messages[1]!, undefined)
  outbox.sendAgain()
  assert.deepEqual(
    outbox.markSent().map(({ record }) => record),
    messages.slice(1).map(({ record }) => record),
  )
  const stored = [record(7), record(8)]
  assert.deepEqual(
    new Outbox(ID, stored).markSent().map(({ record }) => record),
    stored,
  )
})

test('after a lost session the same bytes are sent again, including those of failed messages', () => {
  const { outbox, messages, told } = sent(2)
  const before = messages.map(({ record }) => record)
  outbox.refuse(messages[0]!, StaticError.of('too_large'))
  outbox.sendAgain()
  assert.equal(outbox.canRecover, false)
  assert.deepEqual(
    outbox.markSent().map(({ record }) => record),
    before,
  )
  outbox.refuse(messages[0]!, StaticError.of('too_large'))
  outbox.refuse(messages[1]!, undefined)
  outbox.recover(({ record }) => ({ ...record, counter: 1 }))
  outbox.written()
  assert.deepEqual(told, ['1 too_large'])
  assert.equal(outbox.markSent().length, 1)
})

test('a message that is not on disk is not sent, whatever happens to the others', () => {
  const error = StaticError.of('quota_exceeded')
  const endings: readonly ((outbox: Outbox, message: Outgoing) => void)[] = [
    (outbox, message) => outbox.refuse(message, undefined),
    (outbox, message) => outbox.refuse(message, error),
    (outbox) => outbox.sendAgain(),
  ]
  for (const end of endings) {
    const { outbox, messages } = sent(1)
    outbox.add(record(2), undefined)
    end(outbox, messages[0]!)
    if (outbox.canRecover) outbox.recover(undefined)
    assert.deepEqual(
      outbox.markSent().filter(({ record }) => record.counter === 2),
      [],
    )
    outbox.drain()
    outbox.written()
    assert.equal(outbox.markSent().at(-1)?.record.counter, 2)
  }
})

test('when sending ends, every waiting caller gets the error', () => {
  const { outbox, messages, told } = sent(2)
  outbox.answer(messages[0]!, 7)
  outbox.fail(StaticError.of('removed'))
  assert.deepEqual(told, ['1 ok', '2 removed'])
  assert.equal(outbox.hasRoom, false)
  assert.deepEqual(outbox.markSent(), [])
})

/** What the relay and the line do to the messages that are under way. */
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('send' as const) }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('answer' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('commit' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('busy' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('pass' as const) }) },
)

test('with random refusals and lost sessions, each message is accepted once and in order', (t) => {
  t.diagnostic(`seed ${SEED}`)
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 300 }), (steps) => {
      const model = new Model()
      for (const step of steps) model.step(step.do)
      model.finish()
      assert.deepEqual(
        model.log.map(({ messageId }) => toHex(messageId)),
        model.wanted,
      )
      assert.deepEqual(model.resolved, model.wanted)
      assert.deepEqual(model.outbox.unanswered, [])
      assert.equal(model.passed, model.log.length)
    }),
    { seed: SEED, numRuns: 200 },
  )
})

/** A relay by the contract (id, counter, slot, in this order), with a sender that behaves like sender.ts. */
class Model {
  readonly outbox = new Outbox(ID)
  readonly log: OutboxRecord[] = []
  readonly wanted: string[] = []
  readonly resolved: string[] = []
  passed = 0
  #head = 0
  #known = 0
  #counter = 0
  #busy = false
  #line: Outgoing[] = []

  step(what: 'send' | 'answer' | 'commit' | 'busy' | 'cut' | 'pass'): void {
    if (what === 'send') this.#send()
    else if (what === 'answer') this.#answer()
    else if (what === 'commit') this.#head++
    else if (what === 'busy') this.#busy = true
    else if (what === 'pass') this.#pass()
    else this.#cut()
    this.#work()
  }

  finish(): void {
    while (this.outbox.unanswered.length > 0 || this.passed < this.log.length) {
      this.#work()
      this.#answer()
      this.#pass()
    }
  }

  #send(): void {
    if (!this.outbox.hasRoom) return
    const messageId = sha256(Buffer.from(`${this.wanted.length}`)).subarray(0, 16)
    const name = toHex(messageId)
    this.wanted.push(name)
    const sealed = record(++this.#counter, { messageId, slot: this.#known })
    this.outbox.add(sealed, { resolve: () => this.resolved.push(name), reject: assert.fail })
  }

  #work(): void {
    if (this.outbox.canRecover) {
      // Caught up, and numbered from the first that is left.
      this.#known = this.#head
      this.#counter = (this.outbox.unanswered[0]?.record.counter ?? this.#counter + 1) - 1
      this.outbox.recover(({ record }) => ({
        ...record,
        counter: ++this.#counter,
        slot: this.#known,
        messageKey: new Uint8Array(32),
      }))
    }
    this.outbox.drain()
    this.outbox.written()
    this.#line.push(...this.outbox.markSent())
  }

  /** The relay handles the next request, and the answer arrives. */
  #answer(): void {
    const message = this.#line.shift()
    if (!message) return
    if (this.#judge(message.record)) this.outbox.answer(message, 7)
    else this.outbox.refuse(message, undefined)
  }

  #judge(record: OutboxRecord): boolean {
    if (this.log.some(({ messageId }) => toHex(messageId) === toHex(record.messageId))) return true
    const busy = this.#busy
    this.#busy = false
    if (busy || record.counter !== this.log.length + 1 || record.slot !== this.#head) return false
    this.log.push(record)
    return true
  }

  /** Some requests have arrived, no answer comes back. */
  #cut(): void {
    const arrived = this.#line.splice(0).slice(0, 2)
    for (const { record } of arrived) this.#judge(record)
    this.outbox.sendAgain()
  }

  #pass(): void {
    const entry = this.log[this.passed]
    if (!entry) return
    this.passed++
    assert.deepEqual(this.outbox.pass(entry.messageId, 7), sha256(entry.ciphertext))
  }
}
