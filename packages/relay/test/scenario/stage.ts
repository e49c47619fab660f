/** What the scenarios share: a relay, agents on it, channels among them. */
import assert from 'node:assert/strict'
import { Agent, type AgentKey, makeKey, Refused } from '@static/testkit/agent'
import { startTestRelay, type TestRelay, type TestRelayOptions, type Way } from '@static/testkit/relay'
import { startTestNodes } from '@static/testkit/relay/nodes'

/** A refusal with this code. */
export function code(expected: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof Refused, String(error))
    assert.equal(error.code, expected)
    return true
  }
}

/** Members who have joined and are caught up. */
export interface Cast {
  readonly channel: Uint8Array
  readonly name: string
  readonly owner: Agent
  readonly members: readonly Agent[]
  /** The chain where the members' logs begin. */
  readonly startHash: Uint8Array
}

let lastName = 0

/** A name that no other scenario uses. */
export function freshName(): string {
  return `acme/test/c${++lastName}`
}

/** How its relay is started. */
export interface StageOptions extends TestRelayOptions {
  /** Number of nodes, which need a common database. Default: 1. */
  nodes?: number
}

/** A relay and who is connected to it. */
export class Stage {
  readonly relay: TestRelay
  readonly #agents: Agent[] = []

  private constructor(relay: TestRelay) {
    this.relay = relay
  }

  static async open(way: Way, options: StageOptions = {}): Promise<Stage> {
    const { nodes = 1, ...own } = options
    return new Stage(await (nodes === 1 ? startTestRelay(way, own) : startTestNodes(way, nodes, own)))
  }

  /** An agent with a session: of an account, or a guest. */
  async connect(account?: string, key: AgentKey = makeKey()): Promise<Agent> {
    const jwt = account === undefined ? '' : this.relay.api.token(account)
    const agent = await Agent.connect(this.relay.wire(), { key, jwt })
    this.#agents.push(agent)
    return agent
  }

  /** An agent without a session yet. */
  async dial(key: AgentKey = makeKey()): Promise<Agent> {
    const agent = await Agent.dial(this.relay.wire(), key)
    this.#agents.push(agent)
    return agent
  }

  /** A channel with an owner and members that it vouches for: accounts of their own, or guests. */
  async cast(count: number, kind: 'accounts' | 'guests' = 'accounts'): Promise<Cast> {
    const owner = await this.connect('owner')
    const name = freshName()
    const channel = await owner.createChannel(name)
    const members: Agent[] = []
    for (let at = 0; at < count; at++) {
      const member = await this.connect(kind === 'guests' ? undefined : `member-${at}`)
      await member.request('resume', {})
      members.push(member)
    }
    const adds = members.map(({ id }) => id)
    await owner.commit(channel, 0n, { adds, vouches: adds })
    await owner.next('deliverCommit')
    let startHash = new Uint8Array()
    for (const member of members) {
      const welcome = await member.next('deliverWelcome')
      assert.equal(welcome.name, name)
      assert.deepEqual(welcome.channelId, channel)
      startHash = new Uint8Array(welcome.position?.hash ?? [])
      await member.request('resume', { channelIds: [channel] })
    }
    return { channel, name, owner, members, startHash }
  }

  async close(): Promise<void> {
    for (const agent of this.#agents) agent.close()
    await this.relay.close()
  }
}
