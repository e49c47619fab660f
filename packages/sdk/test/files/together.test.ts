/** Many files of one agent at once: they share its places, and the memory that one would take. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FileParts } from '../../src/internal.ts'
import type { ReceivedFile } from '../../src/public/received/received-file.ts'
import { takeEnvelope, TestSystem } from '../support/test-system.ts'
import { directoryFor, hashOf, MIB } from './support.ts'

const FILES = 10
/** Four that are being fetched, and eight that wait for their readers. */
const MOST_HELD = 12
/** Of all files that are being sent. */
const MOST_BUFFERS = 4

/** Counts the parts that were fetched and are not on disk yet. */
class Held {
  most = 0
  #now = 0

  readonly parts = (files: FileParts): FileParts => ({
    ...files,
    line: {
      ...files.line,
      get: async (request, length) => {
        const reply = await files.line.get(request, length)
        this.change(1)
        return reply
      },
    },
    disk: {
      ...files.disk,
      openTarget: async (path, isLeft) => {
        const target = await files.disk.openTarget(path, isLeft)
        if (!target) return undefined
        const { identity, isComplete } = target
        return {
          path,
          identity,
          isComplete,
          sync: () => target.sync(),
          finish: (size) => target.finish(size),
          close: () => target.close(),
          write: async (bytes, at) => {
            // A disk that is slower than the network.
            for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
            await target.write(bytes, at)
            this.change(-1)
          },
        }
      },
    },
  })

  change(by: 1 | -1): void {
    this.#now += by
    this.most = Math.max(this.most, this.#now)
  }
}

test('many files that are saved and read at once take no more memory than a few parts', async (t) => {
  const world = await TestSystem.start(t, 'quic', { files: true })
  const held = new Held()
  const alice = await world.agent('alice')
  const bob = await world.agent('bob', { files: held.parts })
  const [a, b] = await world.channel(alice, [bob])
  const directory = directoryFor(t)
  const path = join(directory, 'sent')
  const bytes = randomBytes(5 * MIB)
  writeFileSync(path, bytes)
  const targets = join(directory, 'targets')
  mkdirSync(targets)
  const files: ReceivedFile[] = []
  for (let number = 0; number < FILES; number++) {
    await a!.sendFile(path)
    files.push((await takeEnvelope(b!)).file ?? assert.fail())
  }
  const saved = await Promise.all(files.slice(1).map((file) => file.save(targets)))
  for (const each of saved) assert.equal(hashOf(readFileSync(each)), hashOf(bytes))
  assert.ok(held.most <= MOST_HELD, `${held.most} parts in memory`)
  // Readers that stop keep nobody else waiting.
  const [slow = assert.fail()] = files
  const readers = Array.from({ length: 2 }, () => slow.stream()[Symbol.asyncIterator]())
  for (const reader of readers) {
    assert.equal((await reader.next()).done, false)
    held.change(-1)
  }
  assert.ok(held.most <= MOST_HELD, `${held.most} parts in memory`)
  await a!.sendFile(path)
  const other = (await takeEnvelope(b!)).file ?? assert.fail()
  assert.equal(hashOf(readFileSync(await other.save(targets))), hashOf(bytes))
  for (const reader of readers) await reader.return?.(undefined)
  assert.equal(hashOf(readFileSync(await slow.save(targets))), hashOf(bytes))
})

test('many files that are sent at once are read into the same buffers', async (t) => {
  const world = await TestSystem.start(t, 'quic', { files: true })
  const buffers = new Set<ArrayBufferLike>()
  const full = Promise.withResolvers<void>()
  const alice = await world.agent('alice', {
    files: (files) => ({
      ...files,
      disk: {
        ...files.disk,
        openSource: async (path) => {
          const source = await files.disk.openSource(path)
          return {
            path,
            size: source.size,
            isUnchanged: () => source.isUnchanged(),
            close: () => source.close(),
            read: async (target, at) => {
              buffers.add(target.buffer)
              if (buffers.size === MOST_BUFFERS) full.resolve()
              await full.promise
              return await source.read(target, at)
            },
          }
        },
      },
    }),
  })
  const bob = await world.agent('bob')
  const [a, b] = await world.channel(alice, [bob])
  const directory = directoryFor(t)
  const sent = Array.from({ length: 6 }, (_, number) => join(directory, `sent ${number}`))
  const bytes = randomBytes(4 * MIB)
  for (const path of sent) writeFileSync(path, bytes)
  await Promise.all(sent.map((path) => a!.sendFile(path)))
  // Buffers are let go when nothing is sent, and then there may be new ones.
  assert.ok(buffers.size <= 2 * MOST_BUFFERS, `${buffers.size} buffers`)
  const { file = assert.fail() } = await takeEnvelope(b!)
  assert.equal(hashOf(readFileSync(await file.save(join(directory, 'saved')))), hashOf(bytes))
})
