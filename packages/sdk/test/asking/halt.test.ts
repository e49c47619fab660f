/** Requests in a channel that sends nothing until its application acts: their handlers wait, and run once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serveRequests } from '../../src/channel/asking/serving.ts'
import { Apart } from '../support/apart.ts'
import { type Player, Stage } from '../support/stage.ts'

const DAY = 24 * 3600 * 1000

interface Scene {
  readonly stage: Stage
  readonly ann: Player
  readonly bob: Player
  readonly runs: boolean[]
  /** What handlers wait for. */
  readonly gate: PromiseWithResolvers<void>
  /** Shows everybody another history. */
  readonly fork: () => Promise<void>
  /** Asks Bob. Resolves with the answer, or why there is none. */
  readonly ask: () => Promise<string>
  readonly stop: () => Promise<void>
}

/** Bob serves, and a member can show all others another history. */
async function scene(): Promise<Scene> {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'mal')]
  const runs: boolean[] = []
  const gate = Promise.withResolvers<void>()
  const end = new AbortController()
  const handler = async ({ redelivered }: { readonly redelivered: boolean }): Promise<string> => {
    runs.push(redelivered)
    await gate.promise
    return 'transferred'
  }
  const serving = serveRequests(bob, bob.channel, handler, { signal: end.signal })
  const fork = async (): Promise<void> => {
    const { index } = stage.position
    mal.say(mal.frame('I saw another log', { seen: { index, hash: Buffer.alloc(32, 7) } }))
    await stage.settleWithPrograms()
    assert.equal(bob.told('fork_detected').length, 1)
  }
  const ask = async (): Promise<string> => {
    const question = { payload: Buffer.from('transfer'), to: bob.agentId, lifetimeMs: 7 * DAY, signal: undefined }
    const entry = await ann.channel.asks.ask(question).next()
    return entry && 'payload' in entry.content ? Buffer.from(entry.content.payload).toString() : 'none'
  }
  const stop = async (): Promise<void> => {
    end.abort()
    await serving
  }
  return { stage, ann, bob, runs, gate, fork, ask, stop }
}

test('a handler whose answer a fork holds back runs again once, when the fork is accepted', async () => {
  const { stage, bob, runs, gate, fork, ask, stop } = await scene()
  const answer = ask()
  await stage.settleWithPrograms()
  assert.deepEqual(runs, [false])
  await fork()
  gate.resolve()
  await stage.settleWithPrograms()
  await stage.advance(DAY / 24, 30_000)
  await stage.settleWithPrograms()
  assert.deepEqual(runs, [false])
  bob.channel.acceptFork()
  await stage.settleWithPrograms()
  assert.deepEqual(runs, [false, true])
  assert.equal(await answer, 'transferred')
  await stop()
})

test('a request that comes in a fork waits until the member that caused it is removed, unless it is cancelled', async () => {
  const { stage, ann, bob, runs, gate, fork, ask, stop } = await scene()
  gate.resolve()
  await fork()
  // Ann goes on at once.
  ann.channel.acceptFork()
  const answer = ask()
  const question = { payload: Buffer.from('q'), to: bob.agentId, lifetimeMs: 7 * DAY, signal: undefined }
  const cancelled = ann.channel.asks.ask(question)
  await stage.settleWithPrograms()
  cancelled.cancel()
  await stage.advance(120_000)
  await stage.settleWithPrograms()
  assert.deepEqual(runs, [])
  // The owner removes the member that showed another history, so nothing has to be accepted.
  const removing = ann.channel.committer.commit(() => ({
    removes: [stage.apart.get('mal')?.agentId ?? assert.fail()],
  }))
  await stage.settleWithPrograms()
  await removing
  await stage.settleWithPrograms()
  assert.deepEqual(runs, [false])
  assert.equal(await answer, 'transferred')
  assert.equal(bob.channel.requests.inbox.isEmpty, true)
  await stop()
})

test('a server stops in a fork, and the next one gets the request as new', async () => {
  const { stage, ann, bob, runs, gate, fork, ask, stop } = await scene()
  gate.resolve()
  await fork()
  ann.channel.acceptFork()
  const answer = ask()
  await stage.settleWithPrograms()
  await stop()
  assert.equal(bob.channel.requests.inbox.isEmpty, false)
  bob.channel.acceptFork()
  const again = new AbortController()
  const handler = async ({ redelivered }: { readonly redelivered: boolean }): Promise<string> => `${redelivered}`
  const serving = serveRequests(bob, bob.channel, handler, { signal: again.signal })
  await stage.settleWithPrograms()
  assert.equal(await answer, 'false')
  assert.deepEqual(runs, [])
  again.abort()
  await serving
})
