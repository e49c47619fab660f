import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Hasher } from '../src/secrets/hash.ts'
import { DEFAULT_SETTINGS } from '../src/settings.ts'

const quick = { memoryKib: 8, passes: 1, lanes: 1, concurrency: 2, queue: 3 }

test('the default is Argon2id with 19 MiB, 2 passes, 1 lane', async () => {
  const phc = await new Hasher(DEFAULT_SETTINGS.argon2).hash('secret')
  assert.match(phc, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
})

test('only the hashed secret is accepted', async () => {
  const hasher = new Hasher(quick)
  const phc = await hasher.hash('secret')
  assert.equal(await hasher.verify(phc, 'secret', 'clean'), true)
  assert.equal(await hasher.verify(phc, 'Secret', 'clean'), false)
  assert.equal(await hasher.refuse('secret', 'clean'), false)
})

test('a limited number of hashes run, a limited number wait, and the rest get a retry time', async () => {
  const hasher = new Hasher({ ...quick, memoryKib: 4096 })
  const runs = Array.from({ length: 8 }, () =>
    hasher.hash('secret').then(
      () => 'done',
      (error: { code: string }) => error.code,
    ),
  )
  assert.deepEqual(hasher.load, { running: 2, waiting: 3, runs: 2 })
  const results = await Promise.all(runs)
  assert.equal(results.filter((result) => result === 'done').length, 5)
  assert.equal(results.filter((result) => result === 'unavailable').length, 3)
  assert.deepEqual(hasher.load, { running: 0, waiting: 0, runs: 5 })
})

test('a flood of suspicious attempts never takes the last slot', async () => {
  const hasher = new Hasher({ ...quick, memoryKib: 4096, queue: 50 })
  const phc = await hasher.hash('secret')
  const flood = Array.from({ length: 20 }, () => hasher.verify(phc, 'wrong', 'suspect'))
  assert.equal(hasher.load.running, 1, 'one of two places')
  const owner = hasher.verify(phc, 'secret', 'clean')
  assert.equal(hasher.load.running, 2, 'the owner runs at once')
  assert.ok(await owner)
  assert.ok(!(await Promise.all(flood)).includes(true))
})

test('checking secrets yields to everything else', { skip: process.platform !== 'linux' }, async () => {
  const niceness = (): number[] =>
    readdirSync('/proc/self/task').map((id) => {
      const [, after = ''] = readFileSync(`/proc/self/task/${id}/stat`, 'utf8').split(') ')
      return Number(after.split(' ')[16])
    })
  const own = Number(readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ')[16])
  await new Hasher(quick).hash('secret')
  assert.ok(
    niceness().some((nice) => nice > own),
    niceness().join(),
  )
})

test('a hash that cannot be read fails its own check only', async () => {
  const hasher = new Hasher(quick)
  await assert.rejects(hasher.verify('not a hash', 'secret', 'clean'), /Argon2 failed/)
  const phc = await hasher.hash('secret')
  assert.ok(await hasher.verify(phc, 'secret', 'clean'))
  assert.equal(hasher.load.running, 0)
})
