/** Asker and server are killed between any two of their calls to the world: no request is lost, none answered twice. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CrashingPorts } from '@static/testkit/crash/agent-ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { Ask } from '../../src/public/ask.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { NAME, TestSystem } from '../support/test-system.ts'

/** 500 and 100 in `npm run proof -- ask`. */
const ASKS = Number(process.env['STATIC_ASKS'] ?? 24)
const KILLS = Number(process.env['STATIC_KILLS'] ?? 3)
/** Requests that are open at the same time. */
const OPEN = 8
/** Parts of each answer. */
const PARTS = 3

const random = randomNumbers(SEED)

/** An agent that dies at a random call, and lives again. */
class Mortal {
  readonly name: string
  readonly work: (client: StaticClient) => void
  readonly #world: TestSystem
  #kills = KILLS

  constructor(world: TestSystem, name: string, work: (client: StaticClient) => void) {
    this.#world = world
    this.name = name
    this.work = work
  }

  /** Lives until the end, from one death to the next. */
  async live(end: Promise<void>): Promise<void> {
    let isOver = false
    void end.then(() => (isOver = true))
    while (!isOver) {
      const ports = new CrashingPorts()
      const client = await this.#world.agent(this.name, ports.options)
      if (this.#kills > 0) {
        ports.mark({ call: 5 + Math.floor(random() * 40), moment: random() < 0.5 ? 'before' : 'after' })
      }
      this.work(client)
      await Promise.race([ports.died, end])
      if (ports.isDead) this.#kills--
      await client.close().catch(() => {})
    }
  }

  get killsLeft(): number {
    return this.#kills
  }
}

test(`asker and server are killed ${KILLS} times each in ${ASKS} requests, seed ${SEED}`, async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const alice = await world.agent('alice')
  const bob = await world.agent('bob')
  const { agentId: to } = bob
  await world.channel(alice, [bob])
  await alice.close()
  await bob.close()

  /** What the server did, by request. */
  const runs = new Map<string, { readonly task: string; readonly redelivered: boolean }[]>()
  const server = new Mortal(world, 'bob', (client) => {
    const serving = client.channel(NAME).serve(async function* (request) {
      const before = runs.get(request.messageId) ?? []
      runs.set(request.messageId, [...before, { task: request.text(), redelivered: request.redelivered }])
      for (let part = 0; part < PARTS; part++) yield `${request.text()} ${part}`
    })
    serving.catch(() => {})
  })

  /** What the asker's program has on its own disk. */
  const waiting = new Set(Array.from({ length: ASKS }, (_, n) => `task ${n}`))
  const taskOf = new Map<string, string>()
  const answers = new Map<string, string[]>()
  const taken = new Set<string>()
  const done = Promise.withResolvers<void>()
  const read = async (client: StaticClient, ask: Ask): Promise<void> => {
    const task = taskOf.get(ask.id) ?? assert.fail('an unknown request')
    for await (const answer of ask) {
      // One that was given, but not settled on disk, is given again.
      if (taken.has(answer.messageId)) continue
      taken.add(answer.messageId)
      answers.set(task, [...(answers.get(task) ?? []), answer.text()])
    }
    waiting.delete(task)
    if (waiting.size === 0) done.resolve()
    else start(client)
  }
  const follow = (client: StaticClient, ask: Ask): void => void read(client, ask).catch(() => {})
  /** Asks what is not asked yet. */
  const start = (client: StaticClient): void => {
    const channel = client.channel(NAME)
    const asked = new Map(channel.asked().map((ask) => [ask.id, taskOf.get(ask.id)]))
    const open = new Set(asked.values())
    const free = [...waiting].filter((task) => !open.has(task) && !answers.has(task))
    for (const task of free.slice(0, OPEN - open.size)) {
      const ask = channel.ask(task, { to, timeout: 3600 })
      taskOf.set(ask.id, task)
      follow(client, ask)
    }
  }
  const asker = new Mortal(world, 'alice', (client) => {
    const channel = client.channel(NAME)
    for (const ask of channel.asked()) follow(client, ask)
    // What was answered completely before the death, and only not noted, is done.
    const open = new Set(channel.asked().map(({ id }) => taskOf.get(id)))
    for (const task of waiting) if (answers.get(task)?.length === PARTS && !open.has(task)) waiting.delete(task)
    if (waiting.size === 0) done.resolve()
    start(client)
  })
  await Promise.all([server.live(done.promise), asker.live(done.promise)])

  assert.equal(answers.size, ASKS)
  for (const [task, parts] of answers) {
    assert.deepEqual(
      parts,
      Array.from({ length: PARTS }, (_, part) => `${task} ${part}`),
    )
  }
  const served = new Set([...runs.values()].flat().map(({ task }) => task))
  assert.equal(served.size, ASKS)
  // What ran twice is flagged.
  for (const [, ...again] of runs.values()) {
    for (const run of again) assert.equal(run.redelivered, true, run.task)
  }
  const twice = [...runs.values()].filter(({ length }) => length > 1).length
  t.diagnostic(`${twice} ran twice; kills left: ${asker.killsLeft} of the asker, ${server.killsLeft} of the server`)
  const deaths = 2 * KILLS - asker.killsLeft - server.killsLeft
  t.diagnostic(
    `promise T4: asks, seed ${SEED}: ${ASKS} requests over ${deaths} deaths between two calls, each answered once`,
  )
})
