/** kill -9 at every point of the SQLite engine, again and again on one file. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Entry } from '../../src/ports.ts'
import { ENGINE_STEPS } from '@static/testkit/crash/store-steps'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import type { Said } from './crash-child.ts'
import { randomNumbers, SEED } from '@static/testkit/random'
import { RETENTION, ChannelFixture, accepted, assertChain, bytesOf, temporaryFile } from './channel-fixture.ts'

/** More with STATIC_CRASH=all. */
const ROUNDS = process.env['STATIC_CRASH'] === 'all' ? 500 : 5

const idOf = (entry: Entry): string => (entry.kind === 'leave' ? '' : Buffer.from(entry.messageId).toString('hex'))

test(
  'killed at any point, the store loses, repeats and reorders nothing that was answered',
  { timeout: 3_600_000 },
  async (t) => {
    t.diagnostic(`seed ${SEED}, ${ROUNDS} rounds`)
    const random = randomNumbers(SEED)
    const path = temporaryFile(t)
    const open = async (): Promise<ChannelFixture> =>
      new ChannelFixture(await openSqliteStore({ path, retention: RETENTION }, () => undefined), [])
    const founding = await open()
    await founding.found('alice', 'bob')
    await founding.store.close()

    let acknowledged = 0
    let answered = 0
    let unanswered = 0
    // A kill at the wrong moment leaves nothing unanswered: then there are more of them.
    for (let round = 0; round < ROUNDS || (unanswered <= ROUNDS / 2 && round < 4 * ROUNDS); round++) {
      const point = ENGINE_STEPS[round % ENGINE_STEPS.length]!
      // The rarer points are passed less often.
      const count = 1 + Math.floor(random() * (point.includes('sweep') || point.includes('checkpoint') ? 6 : 20))
      const seed = SEED + round
      const child = [join(import.meta.dirname, 'crash-child.ts'), path, String(seed), point, String(count)]
      const { signal, stdout, stderr } = spawnSync(process.execPath, child, {
        encoding: 'utf8',
        maxBuffer: 1 << 26,
        timeout: 100_000,
      })
      const place = `round ${round}, seed ${seed}, ${point} ${count}`
      assert.equal(signal, 'SIGKILL', `${place}: ${stderr}`)
      // The last line may be torn.
      const lines = stdout.slice(0, stdout.lastIndexOf('\n')).split('\n')
      const said = stdout === '' ? [] : lines.map((line) => JSON.parse(line) as Said)
      for (const { what, index } of said) if (what === 'acknowledging') acknowledged = Math.max(acknowledged, index!)

      const world = await open()
      const { cursor, lastIndex } = await world.stand('alice')
      const { entries, gap } = await world.read('alice', 0)
      assert.ok((gap?.position.index ?? 0) <= acknowledged, place)
      assert.equal(gap, cursor.index === 0 ? undefined : gap, place)
      assert.equal(assertChain(world.channel, entries, gap?.position).index, lastIndex, place)
      const logged = new Map(entries.map((entry) => [idOf(entry), entry]))
      assert.equal(logged.size, entries.length, `${place}: something is there twice`)
      const done = said.filter(({ what }) => what === 'sent' || what === 'committed')
      for (const { id, index } of done) {
        if (index! > (gap?.position.index ?? 0)) assert.equal(logged.get(id!)?.index, index, place)
        else assert.ok(lastIndex >= index!, place)
      }
      answered += done.length

      // Whoever got no answer asks again, in order: accepted now, or told what happened then.
      const known = new Set(done.map(({ id }) => id))
      const open_ = said.filter(({ what, id }) => what === 'sending' && !known.has(id))
      unanswered += open_.length
      let { head } = await world.stand('alice')
      for (const { sender, counter, slot, id } of open_) {
        const was = logged.get(id!)
        const request = world.message(sender!, { counter: counter!, slot: was ? slot! : head, messageId: bytesOf(id!) })
        const result = await world.run('append', request)
        if (was) assert.deepEqual(result, { index: was.index, charged: false }, place)
        else if (!('charged' in result && !result.charged)) accepted(result)
        head = (await world.stand('alice')).head
      }
      await world.store.close()
    }
    t.diagnostic(`promise T1: relay's store, seed ${SEED}: ${answered} answers over ${ROUNDS} kills, 0 lost, 0 doubled`)
    t.diagnostic(`${unanswered} asked again`)
    assert.ok(answered > 10 * ROUNDS && unanswered > ROUNDS / 2, `${answered} answered, ${unanswered} asked again`)
  },
)
