/**
 * Sender and receiver of a file are killed between any two of their calls to the world. The file arrives whole, no nonce
 * ever encrypts two plaintexts, and under its name there is the whole file or none.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CrashingPorts, type CrashPoint } from '@static/testkit/crash/agent-ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { FileParts } from '../../src/files/agent-files.ts'
import type { Envelope } from '../../src/public/envelope.ts'
import { NAME, takeEnvelope, TestSystem } from '../support/test-system.ts'
import { directoryFor, hashOf, MIB } from './support.ts'

/** Every point in `npm run proof`; here one of so many. */
const STEP = Number(process.env['STATIC_STEP'] ?? 5)
const random = randomNumbers(SEED)

/** The points of a run with so many calls, each of which is a test of its own. */
function pointsOf(calls: number): CrashPoint[] {
  const points: CrashPoint[] = []
  const first = Math.floor(random() * STEP)
  for (let point = first; point < 2 * calls; point += STEP)
    points.push({ call: 1 + (point >> 1), moment: point % 2 === 0 ? 'before' : 'after' })
  return points
}

test(`a sender killed at any of its calls sends the file once more, and it arrives as it is, seed ${SEED}`, async (t) => {
  const world = await TestSystem.start(t, 'grpc', { files: true })
  const directory = directoryFor(t)
  let alice = await world.agent('alice')
  const bob = await world.agent('bob')
  const [, b] = await world.channel(alice, [bob])
  await alice.close()

  /** What was sent under each nonce. */
  const sent = new Map<string, string>()
  let [puts, again] = [0, 0]
  const watched = (files: FileParts): FileParts => ({
    ...files,
    line: {
      ...files.line,
      put: async (request, bytes) => {
        const nonce = `${request.path} ${Buffer.from(bytes.subarray(0, 12)).toString('hex')}`
        const hash = hashOf(bytes)
        puts++
        if (sent.has(nonce)) again++
        assert.equal(sent.get(nonce) ?? hash, hash, 'one nonce for two plaintexts')
        sent.set(nonce, hash)
        return await files.line.put(request, bytes)
      },
    },
  })
  const path = join(directory, 'sent')
  let calls = 0
  let points: CrashPoint[] = [{ call: 0, moment: 'before' }]
  let rounds = 0
  const twice: string[] = []
  for (let round = 0; round < points.length; round++) {
    const point = points[round]!
    const bytes = randomBytes(2 * MIB + 1 + round)
    writeFileSync(path, bytes)
    const ports = new CrashingPorts()
    const { files: crashing, ...rest } = ports.options
    alice = await world.agent('alice', { ...rest, files: (files) => crashing(watched(files)) })
    const channel = alice.channel(NAME)
    await channel.catchUp()
    ports.mark(point)
    const done = await Promise.race([
      channel.sendFile(path, { text: String(round) }).then(
        () => 'sent',
        () => 'failed',
      ),
      ports.died.then(() => 'died'),
    ])
    await alice.close().catch(() => {})
    if (round === 0) {
      assert.equal(done, 'sent')
      calls = ports.calls.length
      points = [point, ...pointsOf(calls)]
    }
    if (done !== 'sent') {
      alice = await world.agent('alice', { files: watched })
      await alice.channel(NAME).sendFile(path, { text: String(round) })
      await alice.close()
    }
    // A message that was encrypted before the death is sent as well: like any other.
    let envelope: Envelope
    let copies = 0
    for (;;) {
      envelope = await takeEnvelope(b!)
      assert.equal(envelope.text(), String(round))
      const target = await (envelope.file ?? assert.fail()).save(join(directory, `saved ${round} ${copies++}`))
      assert.equal(hashOf(readFileSync(target)), hashOf(bytes), `call ${point.call}`)
      await b!.catchUp()
      if (!b!.hasNext) break
    }
    if (copies > 1) twice.push(`${point.moment} ${ports.calls[point.call - 1] ?? ''}`)
    rounds++
  }
  t.diagnostic(`${rounds} rounds of ${calls} calls; ${puts} parts, ${again} of them again; twice: ${twice.join(', ')}`)
  assert.ok(calls > 10 && rounds > 3)
})

test(`a receiver killed at any of its calls goes on saving, and no half file has the name, seed ${SEED}`, async (t) => {
  const world = await TestSystem.start(t, 'grpc', { files: true })
  const directory = directoryFor(t)
  const alice = await world.agent('alice')
  let bob = await world.agent('bob')
  const [a] = await world.channel(alice, [bob])
  await bob.close()
  const path = join(directory, 'sent')
  const targets = join(directory, 'targets')
  let points: CrashPoint[] = [{ call: 0, moment: 'before' }]
  let calls = 0
  for (let round = 0; round < points.length; round++) {
    const point = points[round]!
    const bytes = randomBytes(2 * MIB + 1 + round)
    writeFileSync(path, bytes)
    await a!.sendFile(path)
    const target = `${targets} ${round}`
    for (let life = 0; ; life++) {
      const ports = new CrashingPorts()
      bob = await world.agent('bob', ports.options)
      const channel = bob.channel(NAME)
      await channel.catchUp()
      const [file = assert.fail('no file')] = channel.files()
      if (life === 0) ports.mark(point)
      const saving = file.save(target).then(
        () => 'saved' as const,
        () => 'failed' as const,
      )
      const done = await Promise.race([saving, ports.died.then(() => 'died' as const)])
      if (existsSync(target)) assert.equal(hashOf(readFileSync(target)), hashOf(bytes), `call ${point.call}`)
      // A dead agent hears no answer, and would wait for it a minute. What was under way may end on its disk, but nothing more.
      await bob.close().catch(() => {})
      await saving
      if (round === 0) {
        calls = ports.calls.length
        points = [point, ...pointsOf(calls)]
      }
      if (done === 'saved') break
      // A death after the file was marked as saved: it is not offered again.
      bob = await world.agent('bob')
      await bob.channel(NAME).catchUp()
      const isOver = bob.channel(NAME).files().length === 0
      await bob.close()
      if (isOver) break
      assert.ok(life < 2)
    }
    assert.equal(hashOf(readFileSync(target)), hashOf(bytes), `call ${point.call} ${point.moment}`)
    bob = await world.agent('bob')
    assert.deepEqual(bob.channel(NAME).files(), [])
    await bob.close()
  }
  assert.ok(readdirSync(directory).every((name) => !name.endsWith('.part')))
  t.diagnostic(`${points.length} rounds of ${calls} calls`)
  assert.ok(calls > 10)
})
