/** One round: a channel of its own between a peer, who lives, and an agent, who is killed and started again. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { CrashPoint } from '@static/testkit/crash/agent-ports'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import type { AgentEvent } from '../../src/agent/events.ts'
import { take, text, type TestSystem } from '../support/test-system.ts'
import { type Received, type Report, runChild } from './child.ts'
import type { Task } from './tasks.ts'

/** What must not happen to a member, whoever crashes. */
const TROUBLE: readonly AgentEvent['type'][] = [
  'identity_changed',
  'roster_lie',
  'gap',
  'decryption_failure',
  'commit_skipped',
  'commit_rejected',
  'fork_detected',
  'channel_failed',
  'welcome_refused',
]
const PATIENCE_MS = 120_000

/** Reads a channel to its end, and keeps what it was given. */
export class Reader {
  readonly received: Received[] = []
  #wake = Promise.withResolvers<void>()
  /** Fulfilled with the error that ended it, if there was one. */
  readonly ended: Promise<unknown>

  constructor(channel: Channel) {
    this.ended = this.#read(channel).catch((error: unknown) => error)
  }

  get texts(): string[] {
    return this.received.map(({ text }) => text)
  }

  async until(wanted: string): Promise<void> {
    const ended = this.ended.then((error) => {
      throw new Error(`The channel ended before "${wanted}", after: ${this.texts.join(', ')}`, { cause: error })
    })
    ended.catch(() => {})
    while (!this.texts.includes(wanted)) await Promise.race([this.#wake.promise, ended])
  }

  async #read(channel: Channel): Promise<void> {
    for await (const { payload, messageId, redelivered } of channel.envelopes()) {
      this.received.push({ text: text(payload), messageId, redelivered })
      this.#wake.resolve()
      this.#wake = Promise.withResolvers()
    }
  }
}

let scenes = 0

/** A round's agents and channel. */
export class Scene {
  readonly world: TestSystem
  readonly peer: StaticClient
  readonly channel: string
  /** Its identity. */
  readonly agent: string
  /** Null: a guest. */
  readonly #account: string | null
  readonly #trouble: string[] = []
  readonly #watching: AsyncIterator<AgentEvent>[] = []
  #client: StaticClient | undefined

  constructor(world: TestSystem, peer: StaticClient, role: 'owner' | 'guest') {
    scenes++
    this.world = world
    this.peer = peer
    this.channel = `acme/crash/round-${scenes}`
    this.agent = `agent-${scenes}`
    this.#account = role === 'owner' ? randomUUID() : null
    this.#watch('peer', peer)
  }

  /** The agent's. */
  get directory(): string {
    return this.world.directoryOf(this.agent)
  }

  /** Starts the agent in this process. */
  async start(): Promise<StaticClient> {
    this.#client = await this.world.agent(this.agent, { account: this.#account })
    this.#watch('agent', this.#client)
    return this.#client
  }

  async stop(): Promise<void> {
    await this.#client?.close()
    this.#client = undefined
  }

  /** Runs the agent in a process of its own. */
  async crash(
    task: Task,
    crashAt: CrashPoint | undefined,
    options: { readonly deaf?: boolean; readonly meanwhile?: () => Promise<void> } = {},
  ): Promise<Report> {
    const { relay, way } = this.world
    const [quicPort] = relay.quicPorts
    return await runChild(
      {
        directory: this.directory,
        compiled: join(relay.directory, 'compiled'),
        identity: this.agent,
        endpoint: way === 'quic' ? `quic://localhost:${quicPort}` : `https://localhost:${relay.grpcPort}`,
        ca: relay.ca,
        jwt: this.#account === null ? null : relay.api.token(this.#account),
        channel: this.channel,
        task,
        deaf: options.deaf ?? false,
        crashAt,
      },
      options.meanwhile ?? (() => Promise.resolve()),
    )
  }

  /** The peer owns the channel, the agent is in it, has read all of it, and is stopped. */
  async withMember(): Promise<Channel> {
    const client = await this.start()
    const [own, joined] = await this.world.channel(this.peer, [client], this.channel)
    await own!.send('first')
    assert.deepEqual(await take(joined!, 1), ['first'])
    await this.stop()
    return own!
  }

  /** A message each way arrives, and both have seen the same. */
  async goesOn(agent: Reading, peer: Reading): Promise<void> {
    await agent.channel.send('last of the agent')
    await peer.reader.until('last of the agent')
    await peer.channel.send('last of the peer')
    await agent.reader.until('last of the peer')
    const words = (): string[] => [agent, peer].map(({ channel }) => channel.verify())
    await until(
      () => new Set(words()).size === 1,
      () => `They have seen different logs: ${words().join(' / ')}`,
    )
    const expected = [this.#client!.agentId, this.peer.agentId].sort()
    for (const { channel } of [agent, peer]) {
      assert.deepEqual(
        channel
          .members()
          .map(({ agentId }) => agentId)
          .sort(),
        expected,
      )
    }
    assert.deepEqual(this.#trouble, [])
  }

  /** The owner deletes the channel. */
  async end(owned: Channel): Promise<void> {
    for (const events of this.#watching) await events.return?.()
    await owned.delete()
    await this.stop()
  }

  /** Something that was meant to happen to the peer, and happens. */
  expected(pattern: RegExp): void {
    const at = this.#trouble.findIndex((trouble) => pattern.test(trouble))
    assert.notEqual(at, -1, `It did not happen: ${pattern.source}`)
    this.#trouble.splice(at, 1)
  }

  #watch(who: string, client: StaticClient): void {
    const events = client.events()
    this.#watching.push(events)
    const watch = async (): Promise<void> => {
      for await (const happened of events) {
        const trouble = troubleOf(happened, this.channel)
        if (trouble) this.#trouble.push(`${who}: ${trouble}`)
      }
    }
    void watch()
  }
}

/** What is wrong with an event of this channel or of the session, if something is. */
function troubleOf(happened: AgentEvent, channel: string): string | undefined {
  const detail = 'error' in happened ? `${happened.error.code} ${happened.error.message}` : JSON.stringify(happened)
  // The relay ends a session that breaks its rules.
  if (happened.type === 'disconnected') return detail.includes('Refused') ? `disconnected ${detail}` : undefined
  if (!TROUBLE.includes(happened.type) || !('channel' in happened) || happened.channel !== channel) return undefined
  return `${happened.type} ${detail}`
}

/** A channel and who reads it. */
export interface Reading {
  readonly channel: Channel
  readonly reader: Reader
}

export function reading(channel: Channel): Reading {
  return { channel, reader: new Reader(channel) }
}

/** Waits for something that nobody tells of. */
export async function until(holds: () => boolean, complaint: () => string): Promise<void> {
  const late = performance.now() + PATIENCE_MS
  while (!holds()) {
    if (performance.now() > late) throw new Error(complaint())
    await setImmediate()
  }
}
