/** Four processes spend one quota: never more than the limit, and no less than what kills can cost. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import type { Usage } from '@static/protocol'
import { type Client, makeClient } from '@static/testkit/server/client'
import type { HolderTask } from '../support/lease-holder.ts'
import { type Nodes, startNodes } from '../support/nodes.ts'
import { signUp } from '@static/testkit/server/accounts'
import { randomBelow, seedOf } from '@static/testkit/random'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'

const HOLDERS = 4
const LIMIT = 2_000
const CHUNK = 100
const LEASE_SECONDS = 1
const KILLS = 6
const SEED = seedOf(2_026_111)
const SETTINGS = { ...QUICK, quota: { free: LIMIT }, lease: { chunk: CHUNK, seconds: LEASE_SECONDS } }

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

/** Holders of one account’s quota. */
class Fleet {
  accepted = 0
  kills = 0
  readonly #nodes: Nodes
  readonly #account: string
  readonly #running = new Map<ChildProcess, Promise<void>>()
  readonly #onAccepted: ((fleet: Fleet) => void) | undefined
  readonly #faults: string[] = []
  #started = 0

  constructor(nodes: Nodes, account: string, onAccepted?: (fleet: Fleet) => void) {
    this.#nodes = nodes
    this.#account = account
    this.#onAccepted = onAccepted
  }

  /** Starts a holder at the next node in turn. */
  start(dozes = false): void {
    const { servers, credential } = this.#nodes
    const { internalUrl = '' } = servers[this.#started++ % servers.length] ?? {}
    const { ca } = workspace
    const task: HolderTask = {
      url: internalUrl,
      ca,
      credential,
      account: this.#account,
      leaseMs: LEASE_SECONDS * 1000,
      dozes,
    }
    const script = new URL('../support/lease-holder.ts', import.meta.url).pathname
    const child = spawn(process.execPath, [script, JSON.stringify(task)], { stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.on('data', (chunk: Buffer) => {
      this.accepted += chunk.length
      this.#onAccepted?.(this)
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.#faults.push(text))
    const ended = once(child, 'close').then(([code, signal]) => {
      this.#running.delete(child)
      if (code !== 0 && signal !== 'SIGKILL') this.#faults.push(`A holder ended with ${code ?? signal}.`)
    })
    this.#running.set(child, ended)
  }

  /** Kills a holder in the middle of its work and starts another in its place; whether there was one. */
  replace(which: number): boolean {
    const alive = [...this.#running.keys()].filter(({ killed }) => !killed)
    if (!alive[which % alive.length]?.kill('SIGKILL')) return false
    this.kills++
    this.start()
    return true
  }

  /** Waits until every holder has found that nothing is left. */
  async done(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values())
    assert.deepEqual(this.#faults, [])
  }
}

for (const [engine, count] of [
  ['sqlite', 1],
  ['postgres', 2],
] as const) {
  describe(`${HOLDERS} lease holders, ${count} node(s), ${engine}`, engine === 'sqlite' ? WHOLE_ONLY : {}, () => {
    let nodes: Nodes
    let client: Client
    before(async () => {
      nodes = await startNodes({ workspace, engine, count, settings: SETTINGS })
      client = makeClient(nodes.servers[0]?.url ?? '', workspace.ca)
    })
    after(async () => {
      client.close()
      await nodes[Symbol.asyncDispose]()
    })
    const usage = (key: string): Promise<Usage> => client.json<Usage>(200, { path: '/v1/usage', key })

    test('without kills exactly the limit is accepted', async () => {
      const { id, api_key: key } = await signUp(client)
      const fleet = new Fleet(nodes, id)
      for (let at = 0; at < HOLDERS; at++) fleet.start()
      await fleet.done()
      assert.equal(fleet.accepted, LIMIT)
      assert.deepEqual((await usage(key.key)).messages, { used: LIMIT, reserved: 0, limit: LIMIT, remaining: 0 })
    })

    test(`with kill -9 at most the limit, and at least the limit less a chunk per kill (seed ${SEED})`, async (t) => {
      const { id, api_key: key } = await signUp(client)
      const below = randomBelow(SEED)
      // Kills when so many were accepted in all: spread over what is accepted at least, the places drawn.
      const least = LIMIT - KILLS * CHUNK
      const moments = Array.from({ length: KILLS }, (_, at) => ((at + below(1000) / 1000) * least * 0.9) / KILLS)
      const fleet = new Fleet(nodes, id, (fleet) => {
        const isDue = fleet.accepted >= (moments[0] ?? Number.POSITIVE_INFINITY)
        if (isDue && fleet.replace(below(HOLDERS))) moments.shift()
      })
      for (let at = 0; at < HOLDERS; at++) fleet.start()
      await fleet.done()
      t.diagnostic(`seed ${SEED}: ${fleet.kills} kills, ${fleet.accepted} of ${LIMIT} accepted`)
      assert.equal(fleet.kills, KILLS)
      assert.ok(fleet.accepted <= LIMIT, `${fleet.accepted} were accepted: more than the limit`)
      assert.ok(fleet.accepted >= least, `Only ${fleet.accepted} were accepted.`)
      assert.deepEqual((await usage(key.key)).messages, { used: LIMIT, reserved: 0, limit: LIMIT, remaining: 0 })
    })

    test('a holder that settles late loses nothing', async () => {
      const { id, api_key: key } = await signUp(client)
      const fleet = new Fleet(nodes, id)
      fleet.start(true)
      for (let at = 1; at < HOLDERS; at++) fleet.start()
      await fleet.done()
      assert.equal(fleet.accepted, LIMIT)
      assert.deepEqual((await usage(key.key)).messages, { used: LIMIT, reserved: 0, limit: LIMIT, remaining: 0 })
    })
  })
}
