/** A relay in a process of its own, and two honest agents that talk while others misbehave. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { Agent, type AgentKey, makeKey, type Wire } from '@static/testkit/agent'
import { type RelayChild, RelayHome } from '@static/testkit/relay/process'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'

export type By = 'quic' | 'grpc'
export const BOTH: readonly By[] = ['quic', 'grpc']

const POLLS = 2400
const POLL_MS = 50
const PAUSE_MS = 20

/** The relay and the pair. */
export class Scene {
  readonly home: RelayHome
  readonly relay: RelayChild
  readonly pair: Pair
  readonly #agents: Agent[] = []

  private constructor(home: RelayHome, relay: RelayChild, pair: Pair) {
    this.home = home
    this.relay = relay
    this.pair = pair
  }

  static async open(settings: object = {}): Promise<Scene> {
    const home = await RelayHome.make()
    const relay = await home.start(settings)
    const { ca } = home
    // Another address than that of those who misbehave.
    const wire = grpcWire({ port: relay.ports.grpc, ca, localAddress: '127.0.0.3' })
    const owner = await Agent.connect(wire, { jwt: home.api.token('probe') })
    const member = await Agent.connect(quicWire({ port: relay.ports.quic, ca }), { jwt: home.api.token('probe') })
    const pair = new Pair(owner, member, await together(owner, [member], 'acme/test/probe'))
    return new Scene(home, relay, pair)
  }

  wire(by: By, localAddress?: string): Wire {
    const { ports } = this.relay
    const { ca } = this.home
    return by === 'quic' ? quicWire({ port: ports.quic, ca }) : grpcWire({ port: ports.grpc, ca, localAddress })
  }

  /** A stream without a session. */
  async dial(by: By, localAddress?: string, key: AgentKey = makeKey()): Promise<Agent> {
    const agent = await Agent.dial(this.wire(by, localAddress), key)
    this.#agents.push(agent)
    return agent
  }

  /** An agent of an account. */
  async connect(by: By, key: AgentKey = makeKey()): Promise<Agent> {
    const agent = await this.dial(by, undefined, key)
    await agent.open(this.home.api.token('acme'))
    return agent
  }

  /** A figure of the relay's metrics: the sum of its lines. */
  async figure(name: string): Promise<number> {
    const { home, relay } = this
    const call = request({ host: 'localhost', port: relay.ports.grpc, path: '/metrics', ca: home.ca, agent: false })
    call.end()
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    call.on('error', reject).on('response', (response) => resolve(text(response)))
    const lines = [...(await promise).matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)$`, 'gm'))]
    if (lines.length === 0) return NaN
    return lines.reduce((sum, [, value]) => sum + Number(value), 0)
  }

  /** Waits until a figure is right; the relay tells nobody when it changes. */
  async until(name: string, holds: (value: number) => boolean): Promise<void> {
    for (let polls = 0; polls < POLLS; polls++) {
      if (holds(await this.figure(name))) return
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    assert.fail(`${name} is ${await this.figure(name)}`)
  }

  /** The pair was not disturbed, and neither was the relay. */
  async close(): Promise<void> {
    for (const agent of this.#agents) agent.close()
    await this.pair.stop()
    await this.relay.close()
    await this.home.remove()
    assert.equal(this.relay.errors(), '')
  }
}

/** Members of a new channel, caught up. */
export async function together(owner: Agent, members: readonly Agent[], name: string): Promise<Uint8Array> {
  const channel = await owner.createChannel(name)
  for (const member of members) await member.request('resume', {})
  await owner.commit(channel, 0n, { adds: members.map(({ id }) => id) })
  await owner.next('deliverCommit')
  for (const member of members) {
    const { position } = await member.next('deliverWelcome')
    member.ack(channel, position?.index ?? 0n)
    await member.request('resume', { channelIds: [channel] })
  }
  return channel
}

/** Two agents that answer each other all the time. */
export class Pair {
  readonly #agents: readonly [Agent, Agent]
  readonly #channel: Uint8Array
  readonly #talk: Promise<void>
  #counter = 0n
  #stopped = false
  #waiting: { readonly count: bigint; readonly resolve: () => void }[] = []

  constructor(owner: Agent, member: Agent, channel: Uint8Array) {
    this.#agents = [owner, member]
    this.#channel = channel
    this.#talk = this.#exchange()
    // Told by whoever waits for it.
    this.#talk.catch(() => {})
  }

  /** Resolves when so many more exchanges are complete. */
  async exchanges(count: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ count: this.#counter + BigInt(count), resolve })
    await Promise.race([promise, this.#talk])
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#talk
    for (const agent of this.#agents) agent.close()
    await Promise.all(this.#agents.map(({ ended }) => ended))
  }

  async #exchange(): Promise<void> {
    let index = 1n
    while (!this.#stopped) {
      this.#counter++
      for (const speaker of this.#agents) {
        const ciphertext = randomBytes(200)
        const answer = await speaker.send(this.#channel, 1n, this.#counter, ciphertext)
        assert.equal(answer.index, ++index)
        for (const listener of this.#agents) {
          const message = await listener.next('deliverMessage')
          assert.equal(message.index, index)
          if (listener !== speaker) assert.deepEqual(Buffer.from(message.ciphertext), ciphertext)
          listener.ack(this.#channel, index)
        }
      }
      for (const { count, resolve } of this.#waiting) if (this.#counter >= count) resolve()
      this.#waiting = this.#waiting.filter(({ count }) => count > this.#counter)
      // They show that the relay serves, not how fast: the machine is for those who misbehave.
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }
}
