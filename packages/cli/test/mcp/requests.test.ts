/** Which request a model's answer goes to. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from '../../src/agent/actions.ts'
import type { Served } from '../../src/agent/open.ts'
import type { Item } from '../../src/mcp/lane.ts'
import { Requests } from '../../src/mcp/requests.ts'

const CHANNEL = 'acme/support/routing'
const UNLIMITED = new AbortController().signal

/** Requests that arrive, and what was answered. */
class Channel {
  readonly items: Item[] = []
  readonly requests: Requests
  #handler: ((request: Message, served: Served) => Promise<Uint8Array>) | undefined

  constructor() {
    const serve = (_: string, handler: (request: Message, served: Served) => Promise<Uint8Array>): Promise<void> => {
      this.#handler = handler
      return new Promise(() => {})
    }
    this.requests = new Requests({ serve }, (item) => {
      this.items.push(item)
      return () => void this.items.splice(this.items.indexOf(item), 1)
    })
    this.requests.serve(CHANNEL)
  }

  /** A request arrives. Resolves to what it is answered with, which the relay accepts. */
  arrive(agent: string, index: number, signal: AbortSignal = UNLIMITED): { answered: Promise<string>; name: string } {
    const sender = { agent_id: agent, fingerprint: agent, identity: agent, name: agent }
    // Both askers have chosen the same id.
    const fields = { message_id: 'f'.repeat(32), epoch: 1, time: new Date(0).toISOString(), redelivered: false }
    const over = Promise.withResolvers<boolean>()
    signal.addEventListener('abort', () => over.resolve(false))
    const served = { signal, deadline: new Date(0), over: over.promise }
    const handled = this.#handler!({ channel: CHANNEL, index, ...fields, sender, payload: 'eA==' }, served)
    const item = this.items.at(-1)
    const answered = handled.then((payload) => {
      over.resolve(true)
      return Buffer.from(payload).toString()
    })
    return { answered, name: item && 'message' in item ? (item.message.request ?? '') : '' }
  }

  async answer(name: string, text: string, channel: string = CHANNEL): Promise<void> {
    await this.requests.answer(channel, name, Buffer.from(text), UNLIMITED)
  }
}

test('an answer goes to the request it names, though another asker has chosen the same id', async () => {
  const channel = new Channel()
  const victim = channel.arrive('ann', 1)
  const thief = channel.arrive('mal', 2)
  assert.notEqual(victim.name, thief.name)
  await channel.answer(victim.name, 'for ann')
  assert.equal(await victim.answered, 'for ann')
  await channel.answer(thief.name, 'for mal')
  assert.equal(await thief.answered, 'for mal')
})

test('a request is answered once, in its channel, and while it is open', async () => {
  const channel = new Channel()
  const { name, answered } = channel.arrive('ann', 1)
  const notOpen = { code: 'not_found' }
  await assert.rejects(channel.answer(name, 'x', 'acme/support/other'), notOpen)
  await assert.rejects(channel.answer('f'.repeat(32), 'x'), notOpen)
  await channel.answer(name, 'yes')
  await assert.rejects(channel.answer(name, 'no'), notOpen)
  assert.equal(await answered, 'yes')

  const stop = new AbortController()
  const cancelled = channel.arrive('ann', 2, stop.signal)
  const ended = assert.rejects(cancelled.answered, { code: 'cancelled' })
  assert.equal(channel.items.length, 1)
  stop.abort()
  await ended
  // It is no longer delivered, either.
  assert.equal(channel.items.length, 0)
  await assert.rejects(channel.answer(cancelled.name, 'late'), notOpen)
})
