/**
 * Bits flipped in every file of an agent (trust.md, T3): the agent refuses its directory, or everything is as it was.
 * `npm run proof -- corruption` flips more of them.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { randomBelow, SEED } from '@static/testkit/random'
import { IS_WHOLE } from '@static/testkit/whole'
import { openStore } from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

/** In each file. */
const FLIPS = (IS_WHOLE ? 4 : 2) * Number(process.env['STATIC_FLIPS'] ?? 1)
const WRITES = 20
/** A torn record at its end looks the same as one that was being written: the write before it is the last. */
const RING = 'agent.ring'

test('a flipped bit in any file of an agent is noticed, or changes nothing', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const below = randomBelow(SEED)
  const base = mkdtempSync(join(tmpdir(), 'static-corruption-'))
  t.after(() => rmSync(base, { recursive: true, force: true }))
  const directory = join(base, 'agent')
  const store = await openStore(directory)
  for (let n = 1; n <= WRITES; n++) {
    store.write(numberedWrite(n))
    if (n === WRITES / 2) store.checkpoint()
  }
  // As a killed agent leaves it, with its write-ahead log.
  const killed = join(base, 'killed')
  cpSync(directory, killed, { recursive: true })
  store.close()

  const counts = { refused: 0, unharmed: 0 }
  for (const [state, source] of Object.entries({ closed: directory, killed })) {
    const files = readdirSync(source).filter((name) => readFileSync(join(source, name)).length > 0)
    assert.ok(files.length >= 4, files.join())
    for (const file of files) {
      for (let round = 0; round < FLIPS; round++) {
        const copy = join(base, `copy-${file}-${round}`)
        cpSync(source, copy, { recursive: true })
        const bytes = readFileSync(join(copy, file))
        const bit = below(bytes.length * 8)
        bytes[bit >> 3]! ^= 1 << (bit & 7)
        writeFileSync(join(copy, file), bytes)
        const where = `bit ${bit} of ${file} of the ${state} agent`
        const found = await lastOf(copy, where)
        if (found === undefined) counts.refused++
        else {
          counts.unharmed++
          const least = file === RING ? WRITES - 1 : WRITES
          assert.ok(found >= least && found <= WRITES, `${where}: write ${found} is the last`)
        }
        rmSync(copy, { recursive: true })
      }
    }
  }
  const sum = counts.refused + counts.unharmed
  t.diagnostic(
    `promise T3: agent: ${sum} flipped bits, ${counts.refused} noticed, the others changed nothing, 0 served`,
  )
})

/** The last write, with everything before it as it was written; undefined if the directory is refused. */
async function lastOf(directory: string, where: string): Promise<number | undefined> {
  try {
    const store = await openStore(directory)
    try {
      return lastWrite(store)
    } finally {
      store.close()
    }
  } catch (error) {
    if (error instanceof StaticError) return undefined
    throw new Error(`${where} is served`, { cause: error })
  }
}
