import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import type { AgentStore, Change, Transport } from '../../src/ports/index.ts'
import { type AgentOptions, NAME, take, TestSystem, text, waysFor } from '../support/test-system.ts'

const SETTINGS = {
  session: { pingMs: 1000, pongMs: 1000 },
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
}
const BURSTS = 10
const BURST = 30
const MANY = BURSTS * BURST
const COMMITS = 20

const numbered = (name: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${name} ${n}`)
const of = (name: string, taken: readonly string[]): string[] => taken.filter((words) => words.startsWith(`${name} `))

/** Between an agent and the relay: holds what the agent sends, and sees what it encrypts. */
class Gate {
  /** How often a message was encrypted again, for another epoch. */
  encryptedAgain = 0
  readonly options: AgentOptions = {
    store: (store) => this.#watch(store),
    transport: (transport) => this.#guard(transport),
  }
  readonly #slots = new Map<string, number>()
  #held: (() => void)[] | undefined
  #encrypted: PromiseWithResolvers<void> = Promise.withResolvers()

  /** From now on nothing leaves the agent. */
  close(): void {
    this.#held = []
    this.#encrypted = Promise.withResolvers()
  }

  /** Fulfilled when a message was encrypted since the gate was closed. */
  get waiting(): Promise<void> {
    return this.#encrypted.promise
  }

  open(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const write of held) write()
  }

  #watch(store: AgentStore): AgentStore {
    return {
      load: () => store.load(),
      inbox: (...page) => store.inbox(...page),
      poison: (id) => store.poison(id),
      onFailure: (listener) => store.onFailure(listener),
      requests: (id, after, limit) => store.requests(id, after, limit),
      answers: (id) => store.answers(id),
      fileDigests: (id, index) => store.fileDigests(id, index),
      uploadParts: (id, fileId) => store.uploadParts(id, fileId),
      kept: (id, before, limit) => store.kept(id, before, limit),
      keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
      checkpoint: () => store.checkpoint(),
      close: () => store.close(),
      write: (changes) => {
        store.write(changes)
        for (const change of changes) this.#see(change)
      },
    }
  }

  #see(change: Change): void {
    if (change.type !== 'putOutbox') return
    const { messageId, slot } = change.record
    const id = Buffer.from(messageId).toString('hex')
    if ((this.#slots.get(id) ?? slot) !== slot) this.encryptedAgain++
    this.#slots.set(id, slot)
    this.#encrypted.resolve()
  }

  #guard(transport: Transport): Transport {
    return {
      form: transport.form,
      dial: async (target, handlers) => {
        const stream = await transport.dial(target, handlers)
        return {
          write: (...cells) => {
            if (this.#held) this.#held.push(() => stream.write(...cells))
            else stream.write(...cells)
          },
          end: () => stream.end(),
        }
      },
    }
  }
}

for (const way of waysFor('grpc')) {
  test(`bursts of two members meet commits of a third: encrypted again in order, none lost or duplicated, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { settings: SETTINGS })
    const gates = [new Gate(), new Gate()]
    const [owner, ann, bob] = await Promise.all([
      world.agent('owner'),
      world.agent('ann', gates[0]!.options),
      world.agent('bob', gates[1]!.options),
    ])
    const [o, a, b] = (await world.channel(owner, [ann, bob])) as [Channel, Channel, Channel]
    const [fromAnn, fromBob] = [numbered('ann', MANY), numbered('bob', MANY)]
    const heard: string[] = []
    const epochs = new Set<number>()
    const ids = new Set<string>()
    const reading = (async () => {
      for await (const { payload, epoch, messageId, index } of o.envelopes()) {
        heard.push(text(payload))
        epochs.add(epoch)
        ids.add(`${messageId} ${index}`)
        if (heard.length === 2 * MANY) break
      }
    })()
    for (let sent = 0; sent < MANY; sent += BURST) {
      for (const gate of gates) gate.close()
      const burst = <Words>(words: readonly Words[]): readonly Words[] => words.slice(sent, sent + BURST)
      const sending = [...burst(fromAnn).map((words) => a.send(words)), ...burst(fromBob).map((words) => b.send(words))]
      // Encrypted before the commit, and at the relay after it.
      await Promise.all(gates.map((gate) => gate.waiting))
      await o.rotate()
      for (const gate of gates) gate.open()
      await Promise.all(sending)
    }
    await reading
    assert.deepEqual([of('ann', heard), of('bob', heard)], [fromAnn, fromBob])
    assert.equal(ids.size, 2 * MANY)
    assert.equal(epochs.size, BURSTS)
    for (const { encryptedAgain } of gates) assert.ok(encryptedAgain >= BURSTS, `${encryptedAgain} encrypted anew`)
    assert.deepEqual(await take(a, MANY), fromBob)
    assert.deepEqual(await take(b, MANY), fromAnn)
    await o.send('the end')
    assert.deepEqual([await take(a, 1), await take(b, 1)], [['the end'], ['the end']])
  })

  test(`an agent that does not read can still send, and reads everything later, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { settings: SETTINGS })
    const [owner, mute] = await Promise.all(['owner', 'mute'].map((name) => world.agent(name)))
    const [o, m] = (await world.channel(owner!, [mute!])) as [Channel, Channel]
    const expected: string[] = []
    for (let n = 0; n < COMMITS; n++) {
      await o.rotate()
      const words = numbered(`round ${n}`, 20)
      expected.push(...words)
      await Promise.all([...words.map((words) => o.send(words)), m.send(`mute ${n}`)])
    }
    assert.deepEqual(await take(o, COMMITS), numbered('mute', COMMITS))
    // More than is kept in memory, and some of it of epochs that are long over; also by another program.
    assert.deepEqual(await take(m, 100), expected.slice(0, 100))
    await mute!.close()
    const again = (await world.agent('mute')).channel(NAME)
    assert.deepEqual(await take(again, expected.length - 100), expected.slice(100))
    await again.send('still here')
    assert.deepEqual(await take(o, 1), ['still here'])
  })
}
