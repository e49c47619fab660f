/** Askers that take more than their share of a server, or that are gone when it comes to them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OpenAsk } from '../../src/core/channel/asks/open-ask.ts'
import { type RequestHandler, type ServeOptions, serveRequests } from '../../src/core/channel/asks/serving.ts'
import { type Player, Stage } from '../support/stage.ts'

const DAY = 24 * 3600 * 1000

/** Everything happens that can, also what handlers and their answers wait for. */
async function settled(stage: Stage): Promise<void> {
  for (let round = 0; round < 4; round++) {
    await stage.settle()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

function asks(player: Player, to: Player, words = 'q'): OpenAsk {
  const question = { payload: Buffer.from(words), to: to.agentId, lifetimeMs: 7 * DAY, signal: undefined }
  return player.membership.asks.ask(question)
}

/** Serves until the returned function is called. */
function serves(player: Player, handler: RequestHandler, options: ServeOptions = {}): () => Promise<void> {
  const stop = new AbortController()
  const serving = serveRequests(player, player.membership, handler, { ...options, signal: stop.signal })
  return async () => {
    stop.abort()
    await serving
  }
}

for (const kind of ['promise', 'generator'] as const) {
  test(`an asker that cancels does not get around the limit with a ${kind} that goes on`, async () => {
    const stage = await Stage.start(['ann', 'bob', 'cy'])
    const [ann, bob, cy] = [stage.player('ann'), stage.player('bob'), stage.player('cy')]
    const gate = Promise.withResolvers<void>()
    const started: string[] = []
    const work = async (name: string): Promise<string> => {
      started.push(name)
      await gate.promise
      return 'done'
    }
    const nameOf = (agent: string): string => (agent === ann.agentId ? 'ann' : 'cy')
    const stop = serves(bob, (entry) => {
      const name = nameOf(entry.record.sender)
      if (kind === 'promise') return work(name)
      return (async function* () {
        yield await work(name)
      })()
    })
    for (let round = 0; round < 5; round++) {
      const ask = asks(ann, bob)
      await settled(stage)
      ask.cancel()
      await settled(stage)
    }
    asks(cy, bob)
    await settled(stage)
    assert.deepEqual(started, ['ann', 'cy'])
    const last = asks(ann, bob)
    gate.resolve()
    await settled(stage)
    assert.deepEqual(started, ['ann', 'cy', 'ann'], 'its place is free once the handler has ended')
    const answer = last.next()
    await settled(stage)
    assert.ok(await answer)
    await stop()
  })
}
