/**
 * Crashes at random moments and between any two steps: every write is there as a whole or not at all, and what was
 * acknowledged is there. A copy of the directory, taken before a step, is what SIGKILL at that moment leaves.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { randomBelow, seedOf } from '@static/testkit/random'
import { addKeySlot, listKeySlots, openDatabaseKey, removeKeySlot, replaceKeySlot } from '../../src/store/keys/slots.ts'
import { beforeEveryStep } from './steps.ts'
import { code, IDENTITY, makeDirectory, openStore } from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

const AGENT = fileURLToPath(new URL('crashing-agent.ts', import.meta.url))
const SEED = seedOf(20_261_103)
/** More with STATIC_CRASH=all. */
const [KILLS, IN_A_ROW] = process.env['STATIC_CRASH'] === 'all' ? [500, 40] : [5, 8]
const PATIENT = { timeout: 3_600_000 }

/** A write that was under way may be there, as a whole. */
function checkFound(found: number, acknowledged: number): void {
  assert.ok(found === acknowledged || found === acknowledged + 1, `acknowledged ${acknowledged}, found ${found}`)
}

/** Runs an agent until it is killed; returns what it said. */
async function runKilled(directory: string, step: number, onLine: (child: ChildProcess) => void): Promise<string[]> {
  const child = spawn(process.execPath, [AGENT, directory, String(step)], { stdio: ['ignore', 'pipe', 'pipe'] })
  const lines: string[] = []
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line)
    onLine(child)
  })
  const ended = Promise.withResolvers<void>()
  child.on('close', () => ended.resolve())
  await ended.promise
  assert.equal(child.signalCode, 'SIGKILL', complaint)
  return lines
}

test(
  `killed ${KILLS} times, at random moments and at random steps: acknowledged writes survive`,
  PATIENT,
  async (t) => {
    t.diagnostic(`STATIC_SEED=${SEED}`)
    const directory = makeDirectory()
    const below = randomBelow(SEED)
    let acknowledged = 0
    for (let round = 0; round < KILLS; round++) {
      let left = round % 2 === 0 ? 1 + below(60) : Infinity
      const step = round % 2 === 0 ? 0 : 1 + below(400)
      const lines = await runKilled(directory, step, (child) => --left === 0 && child.kill('SIGKILL'))
      for (const line of lines) {
        const [word, number] = line.split(' ')
        if (word === 'opened') checkFound(Number(number), acknowledged)
        acknowledged = Number(number)
      }
    }
    assert.ok(acknowledged > 5 * KILLS, `only ${acknowledged} writes`)
    t.diagnostic(`promise T1: agent's store: seed ${SEED}: ${acknowledged} writes over ${KILLS} kills, 0 lost`)
    const store = await openStore(directory)
    checkFound(lastWrite(store), acknowledged)
    store.close()
  },
)

/** What was on disk before a step, and what had been acknowledged by then. */
interface Image {
  readonly directory: string
  readonly acknowledged: number
}

/** Does some work and copies the directory before each of its steps. */
async function imagesOf(
  directory: string,
  work: (acknowledge: (n: number) => void) => Promise<void>,
): Promise<Image[]> {
  const images: Image[] = []
  const base = makeDirectory()
  let acknowledged = 0
  beforeEveryStep(() => {
    const image = join(base, String(images.length))
    if (!existsSync(directory)) return
    cpSync(directory, image, { recursive: true })
    images.push({ directory: image, acknowledged })
  })
  try {
    await work((n) => (acknowledged = n))
  } finally {
    beforeEveryStep(undefined)
  }
  return images
}

/** A life of an agent: start, two writes, a checkpoint between them, end. */
async function live(directory: string, before: number, acknowledge: (n: number) => void): Promise<void> {
  const store = await openStore(directory)
  const n = lastWrite(store)
  checkFound(n, before)
  acknowledge(n)
  store.write(numberedWrite(n + 1))
  acknowledge(n + 1)
  store.checkpoint()
  store.write(numberedWrite(n + 2))
  acknowledge(n + 2)
  store.close()
}

test('a crash before any step of the first start', async () => {
  const directory = join(makeDirectory(), 'agent')
  const images = await imagesOf(directory, (acknowledge) => live(directory, 0, acknowledge))
  assert.ok(images.length > 60, `only ${images.length} steps were seen`)
  for (const image of images) {
    const store = await openStore(image.directory)
    assert.deepEqual(store.load().identity, IDENTITY)
    checkFound(lastWrite(store), image.acknowledged)
    store.close()
  }
})

test(`crash after crash, without a complete run in between: ${IN_A_ROW} in a row`, async (t) => {
  t.diagnostic(`STATIC_SEED=${SEED}`)
  const below = randomBelow(SEED)
  let directory = makeDirectory()
  let least = 0
  for (let round = 0; round < IN_A_ROW; round++) {
    const images = await imagesOf(directory, async (acknowledge) => {
      acknowledge(least)
      await live(directory, least, acknowledge)
    })
    const next = images[below(images.length)]!
    directory = next.directory
    least = next.acknowledged
  }
  const store = await openStore(directory)
  checkFound(lastWrite(store), least)
  store.close()
})

test('a crash before any step of adding or removing a key slot: what opened the store before still does', async () => {
  const directory = makeDirectory()
  const [own, other] = [{ type: 'file' }, { type: 'file', path: join(directory, 'other.key') }] as const
  const opens = async (place: string, key: typeof own | typeof other): Promise<void> => {
    const store = await openStore(place, { key })
    store.close()
  }
  await opens(directory, own)

  const adding = await imagesOf(directory, async () => void (await addKeySlot(directory, own, other)))
  const counts = adding.map((image) => listKeySlots(image.directory).length)
  assert.deepEqual([...new Set(counts)], [1, 2])
  for (const image of adding) await opens(image.directory, own)
  await opens(directory, other)

  const [first] = listKeySlots(directory)
  const removing = await imagesOf(directory, () => removeKeySlot(directory, other, first!.id))
  assert.deepEqual([...new Set(removing.map((image) => listKeySlots(image.directory).length))], [2, 1])
  for (const image of removing) {
    await opens(image.directory, other)
    if (listKeySlots(image.directory).length === 2) await opens(image.directory, own)
    else await assert.rejects(opens(image.directory, own), code('store_key_wrong'))
  }
})

test('a crash before any step of replacing a key slot: either the old key opens the store or the new one', async () => {
  const directory = makeDirectory()
  const [own, other] = [{ type: 'file' }, { type: 'file', path: join(directory, 'other.key') }] as const
  const store = await openStore(directory)
  store.close()
  const images = await imagesOf(directory, async () => void (await replaceKeySlot(directory, own, other)))
  const openedBy = await Promise.all(
    images.map(async (image) => {
      assert.equal(listKeySlots(image.directory).length, 1)
      const opened = await Promise.allSettled([own, other].map((key) => openDatabaseKey(image.directory, key)))
      return opened.map(({ status }) => status === 'fulfilled').join()
    }),
  )
  assert.deepEqual([...new Set(openedBy)], ['true,false', 'false,true'])
})
