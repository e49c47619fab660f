/**
 * Power cuts at every moment of the API's database: what was answered is there, whatever the disk had not synced.
 * `npm run proof -- power`; needs strace.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { LossyDisk } from '@static/testkit/power/disk'
import { recordDisk } from '@static/testkit/power/recording'
import { randomNumbers, SEED } from '@static/testkit/random'
import { openStore } from '../src/db/store.ts'
import { assertAll, type Said } from './power-work.ts'

const STRACE = process.env['STATIC_TEST_STRACE']
const ANSWERS = 120
/** More would only repeat themselves. */
const CUTS = 150

test(
  `an API whose power is cut at ${CUTS} moments has all that it has answered`,
  { skip: STRACE === undefined && 'strace is not installed' },
  async (t) => {
    t.diagnostic(`seed ${SEED}`)
    const base = mkdtempSync(join(tmpdir(), 'static-power-'))
    t.after(() => rmSync(base, { recursive: true, force: true }))
    const directory = join(base, 'api')
    mkdirSync(directory, { mode: 0o700 })
    let answers = 0
    const child = [join(import.meta.dirname, 'power-child.ts'), join(directory, 'api.sqlite')]
    const events = await recordDisk(STRACE!, child, directory, () => ++answers === ANSWERS)
    const random = randomNumbers(SEED)
    const disk = new LossyDisk()
    const said: Said[] = []
    let cuts = 0
    for (const [at, event] of events.entries()) {
      disk.apply(event)
      if (event.type === 'said') said.push(JSON.parse(event.line) as Said)
      if (random() >= CUTS / events.length) continue
      // All, nothing, or any part of what was not synced.
      const share = [0, 1, 0.5][cuts++ % 3]!
      const place = `after event ${at} (${event.type}), with ${share} of the rest`
      const image = join(base, String(at))
      mkdirSync(image, { mode: 0o700 })
      disk.cut(() => random() < share)((path) => join(image, path.slice(directory.length)))
      const damage: Error[] = []
      const store = await openStore(join(image, 'api.sqlite'), { report: (error) => damage.push(error) }).catch(
        (cause: unknown) => {
          throw new Error(`The API does not open ${place}`, { cause })
        },
      )
      await assertAll(store, said, place)
      await store.verify()
      assert.deepEqual(damage, [], place)
      await store.close()
      rmSync(image, { recursive: true })
    }
    t.diagnostic(`promise T2: API: ${cuts} power cuts in ${events.length} calls, ${ANSWERS} answers, 0 lost`)
  },
)
