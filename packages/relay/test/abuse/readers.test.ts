/** Readers that do not read: the relay's memory stays bounded, they are cut off, and they lose nothing. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { CloseReason } from '@static/protocol/relay'
import { BOTH, Scene, together } from './scene.ts'
import type { ReadersOptions, ReadersQuestion } from './slow-readers.ts'

/** Of each kind. */
const READERS = 2
const MESSAGE_BYTES = 256 * 1024
const MESSAGES = 56
const MIB = 1024 * 1024

let scene: Scene
before(async () => {
  // Long enough for honest agents on a busy machine, which run in this process.
  scene = await Scene.open({ session: { pingMs: 1000, pongMs: 10_000, stallMs: 3000 } })
})
after(() => scene.close())

describe('slow readers', () => {
  test('a stopped process with sessions of both kinds is cut off; nothing is buffered or lost', async (t) => {
    const { home, relay, pair } = scene
    const options: ReadersOptions = { ports: relay.ports, ca: home.ca, jwt: home.api.token('slow'), count: READERS }
    const readers = fork(join(import.meta.dirname, 'slow-readers.ts'), [JSON.stringify(options)])
    t.after(() => readers.kill('SIGKILL'))
    const [ids] = (await once(readers, 'message')) as [string[]]
    const ask = async (question: ReadersQuestion): Promise<unknown> => {
      readers.send(question)
      const [answer] = (await once(readers, 'message')) as [unknown]
      return answer
    }
    const owner = await scene.connect('grpc')
    const channel = await owner.createChannel('acme/test/slow')
    await owner.commit(channel, 0n, { adds: ids.map((id) => Uint8Array.from(Buffer.from(id, 'hex'))) })
    await ask({ type: 'resume', channel: Buffer.from(channel).toString('hex') })
    // As much before, with nobody behind, so that what is measured is not the warming up.
    const warm = await owner.createChannel('acme/test/warm')
    for (let counter = 1; counter <= MESSAGES; counter++) {
      await owner.send(warm, 0n, BigInt(counter), randomBytes(MESSAGE_BYTES))
    }
    const before = await relay.rss('collect')
    readers.kill('SIGSTOP')

    let most = 0
    let last = 0n
    for (let counter = 1; counter <= MESSAGES; counter++) {
      last = (await owner.send(channel, 1n, BigInt(counter), randomBytes(MESSAGE_BYTES))).index
      if (counter % 8 === 0) most = Math.max(most, (await relay.rss()) - before)
    }
    // Those of the pair and of the owner are left.
    await scene.until('static_relay_sessions', (sessions) => sessions === 3)
    const left = (await relay.rss('collect')) - before
    const sent = (MESSAGES * MESSAGE_BYTES) / MIB
    t.diagnostic(
      `${2 * READERS} readers behind by ${sent} MiB each: the relay grew by ${(most / MIB).toFixed(0)} MiB at most, ` +
        `${(left / MIB).toFixed(0)} MiB after they were cut off`,
    )
    // All that waits would be 56 MiB; a window and a queue for each are 5 MiB.
    assert.ok(most < 32 * MIB, `It grew by ${most} bytes.`)
    await pair.exchanges(20)

    readers.kill('SIGCONT')
    const results = (await ask({ type: 'catchUp', last: String(last) })) as {
      seen: number
      all: number
      whole: boolean
    }[]
    for (const { seen, all, whole } of results) {
      assert.ok(seen < MESSAGES / 2, `${seen} of ${MESSAGES} had been sent to a reader that took nothing`)
      assert.deepEqual([all, whole], [MESSAGES, true])
    }
    assert.equal(results.length, 2 * READERS)
    await pair.exchanges(20)
  })

  for (const by of BOTH) {
    test(`a peer that sends but does not read is notified, over ${by}`, async () => {
      const owner = await scene.connect('grpc')
      const reader = await scene.connect(by)
      const channel = await together(owner, [reader], `acme/test/deaf-${by}`)
      reader.deaf = true
      // It shows that it is alive: only what it does not take speaks against it.
      const alive = setInterval(() => reader.ping(), 100)
      try {
        for (let counter = 1n; counter <= 8n; counter++)
          await owner.send(channel, 1n, counter, randomBytes(MESSAGE_BYTES))
        const { reason, error } = await reader.next('sessionClosing')
        assert.deepEqual([reason, error?.code], [CloseReason.SLOW, 'unavailable'])
        await reader.ended
      } finally {
        clearInterval(alive)
      }
      const back = await scene.connect(by, reader.key)
      await back.request('resume', { channelIds: [channel] })
      for (let counter = 1n; counter <= 8n; counter++) {
        assert.equal((await back.next('deliverMessage')).counter, counter)
      }
      await scene.pair.exchanges(5)
    })
  }
})
