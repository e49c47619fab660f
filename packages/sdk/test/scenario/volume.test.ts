import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Channel } from '../../src/channel.ts'
import { NAME, take, text, WAYS, TestSystem } from '../support/test-system.ts'

const SETTINGS = { session: { pingMs: 1000, pongMs: 1000 }, rates: { commitsPerSecond: 1000, commitsBurst: 1000 } }
const MANY = 300
const COMMITS = 20

const numbered = (name: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${name} ${n}`)
const of = (name: string, taken: readonly string[]): string[] => taken.filter((words) => words.startsWith(`${name} `))

for (const way of WAYS) {
  test(`bursts of two meet the commits of a third: encrypted anew, in order, none lost or doubled, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { settings: SETTINGS })
    const [owner, ann, bob] = await Promise.all(['owner', 'ann', 'bob'].map((name) => world.agent(name)))
    const [o, a, b] = (await world.channel(owner!, [ann!, bob!])) as [Channel, Channel, Channel]
    const [fromAnn, fromBob] = [numbered('ann', MANY), numbered('bob', MANY)]
    const epochs = new Set<number>()
    const sending = Promise.all([...fromAnn.map((words) => a.send(words)), ...fromBob.map((words) => b.send(words))])
    const committing = (async () => {
      for (let n = 0; n < COMMITS; n++) await o.rotate()
    })()
    const heard: string[] = []
    const ids = new Set<string>()
    for await (const { payload, epoch, messageId, index } of o.envelopes()) {
      heard.push(text(payload))
      epochs.add(epoch)
      ids.add(`${messageId} ${index}`)
      if (heard.length === 2 * MANY) break
    }
    await Promise.all([sending, committing])
    assert.deepEqual([of('ann', heard), of('bob', heard)], [fromAnn, fromBob])
    assert.equal(ids.size, 2 * MANY)
    // They did meet.
    assert.ok(epochs.size > 2, `${epochs.size} epochs`)
    assert.deepEqual(await take(a, MANY), fromBob)
    assert.deepEqual(await take(b, MANY), fromAnn)
    await o.send('the end')
    assert.deepEqual([await take(a, 1), await take(b, 1)], [['the end'], ['the end']])
  })

  test(`who never reads goes on sending, and reads all of it later, ${way}`, async (t) => {
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
