/**
 * Power cuts at every moment of an agent's life: what was acknowledged is there, whatever the disk had not synced.
 * `npm run proof -- power`; needs strace.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { LossyDisk } from '@static/testkit/power/disk'
import { recordDisk } from '@static/testkit/power/recording'
import { randomNumbers, seedOf } from '@static/testkit/random'
import { openStore } from './support.ts'
import { lastWrite } from './workload.ts'

const AGENT = fileURLToPath(new URL('crashing-agent.ts', import.meta.url))
const STRACE = process.env['STATIC_TEST_STRACE']
const SEED = seedOf(20_261_116)
const WRITES = 40
/** More in a row would only repeat themselves. */
const CUTS = 400

test(
  `an agent whose power is cut at ${CUTS} moments has every acknowledged write`,
  { skip: STRACE === undefined && 'strace is not installed' },
  async (t) => {
    t.diagnostic(`STATIC_SEED=${SEED}`)
    const base = mkdtempSync(join(tmpdir(), 'static-power-'))
    t.after(() => rmSync(base, { recursive: true, force: true }))
    const directory = join(base, 'agent')
    mkdirSync(directory, { mode: 0o700 })
    const events = await recordDisk(
      STRACE!,
      [AGENT, directory, '0'],
      directory,
      (line) => line === `acknowledged ${WRITES}`,
    )
    const random = randomNumbers(SEED)
    const disk = new LossyDisk()
    let acknowledged = 0
    let cuts = 0
    for (const [at, event] of events.entries()) {
      disk.apply(event)
      if (event.type === 'said') acknowledged = Number(event.line.split(' ')[1])
      if (random() >= CUTS / events.length) continue
      // All, nothing, or any part of what was not synced.
      const share = [0, 1, 0.5][cuts++ % 3]!
      const image = join(base, String(at))
      disk.cut(() => random() < share)((path) => join(image, path.slice(directory.length)))
      mkdirSync(image, { recursive: true, mode: 0o700 })
      const store = await openStore(image).catch((cause: unknown) => {
        throw new Error(`After event ${at} (${event.type}), with ${share} of the rest, the agent does not open`, {
          cause,
        })
      })
      const found = lastWrite(store)
      store.close()
      assert.ok(
        found === acknowledged || found === acknowledged + 1,
        `acknowledged ${acknowledged}, found ${found}, after event ${at} with ${share} of the rest`,
      )
      rmSync(image, { recursive: true })
    }
    t.diagnostic(`promise T2: agent: ${cuts} power cuts in ${events.length} calls, ${WRITES} writes, 0 lost`)
  },
)
