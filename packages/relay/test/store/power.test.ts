/**
 * Power cuts at every moment of the SQLite engine: what was answered is there, once and in order, whatever the disk had
 * not synced. `npm run proof -- power`; needs strace.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { LossyDisk } from '@static/testkit/power/disk'
import { recordDisk } from '@static/testkit/power/recording'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { Entry } from '../../src/ports.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import type { Said } from './crash-child.ts'
import { assertChain, ChannelFixture, RETENTION } from './channel-fixture.ts'

const STRACE = process.env['STATIC_TEST_STRACE']
const ANSWERS = 200
/** More would only repeat themselves. */
const CUTS = 150

const idOf = (entry: Entry): string => (entry.kind === 'leave' ? '' : Buffer.from(entry.messageId).toString('hex'))

async function open(path: string): Promise<ChannelFixture> {
  return new ChannelFixture(await openSqliteStore({ path, retention: RETENTION }, () => undefined), [])
}

test(
  `a relay whose power is cut at ${CUTS} moments has all that it has answered`,
  { skip: STRACE === undefined && 'strace is not installed' },
  async (t) => {
    t.diagnostic(`seed ${SEED}`)
    const base = mkdtempSync(join(tmpdir(), 'static-power-'))
    t.after(() => rmSync(base, { recursive: true, force: true }))
    const directory = join(base, 'relay')
    mkdirSync(directory, { mode: 0o700 })
    const founding = await open(join(directory, 'relay.db'))
    await founding.found('alice', 'bob')
    await founding.store.close()
    const before = join(base, 'before')
    cpSync(directory, before, { recursive: true })

    let answers = 0
    const child = [join(import.meta.dirname, 'crash-child.ts'), join(directory, 'relay.db'), String(SEED), 'none', '0']
    const events = await recordDisk(STRACE!, child, directory, (line) => {
      const { what } = JSON.parse(line) as Said
      return (what === 'sent' || what === 'committed') && ++answers === ANSWERS
    })
    const random = randomNumbers(SEED)
    const disk = LossyDisk.from(before, directory)
    const answered: Said[] = []
    let acknowledged = 0
    let cuts = 0
    for (const [at, event] of events.entries()) {
      disk.apply(event)
      if (event.type === 'said') {
        const said = JSON.parse(event.line) as Said
        if (said.what === 'sent' || said.what === 'committed') answered.push(said)
        if (said.what === 'acknowledging') acknowledged = Math.max(acknowledged, said.index!)
      }
      if (random() >= CUTS / events.length) continue
      // All, nothing, or any part of what was not synced.
      const share = [0, 1, 0.5][cuts++ % 3]!
      const place = `after event ${at} (${event.type}), with ${share} of the rest`
      const image = join(base, String(at))
      disk.cut(() => random() < share)((path) => join(image, path.slice(directory.length)))
      const world = await open(join(image, 'relay.db'))
      const { lastIndex } = await world.stand('alice')
      const { entries, gap } = await world.read('alice', 0)
      assert.ok((gap?.position.index ?? 0) <= acknowledged, place)
      assert.equal(assertChain(world.channel, entries, gap?.position).index, lastIndex, place)
      const logged = new Map(entries.map((entry) => [idOf(entry), entry]))
      assert.equal(logged.size, entries.length, `${place}: something is there twice`)
      for (const { id, index } of answered) {
        if (index! > (gap?.position.index ?? 0)) assert.equal(logged.get(id!)?.index, index, place)
        else assert.ok(lastIndex >= index!, place)
      }
      await world.store.close()
      rmSync(image, { recursive: true })
    }
    t.diagnostic(`promise T2: relay: ${cuts} power cuts in ${events.length} calls, ${ANSWERS} answers, 0 lost`)
  },
)
