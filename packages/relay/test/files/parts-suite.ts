/** What every store of parts must do, over its own storage. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Parts } from '../../src/ports.ts'

export const KEY: string = 'ab'.repeat(16)
export const OTHER: string = `cd${'01'.repeat(15)}`

/** An empty store of parts. */
type Open = (t: TestContext) => Promise<Parts>

export async function* chunks(...bytes: readonly Uint8Array[]): AsyncIterable<Uint8Array> {
  yield* bytes
}

async function* failing(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes
  throw new Error('the connection was lost')
}

export async function read(parts: Parts, key: string, part: number, bytes: number): Promise<Buffer | undefined> {
  const body = await parts.get(key, part, bytes)
  if (!body) return undefined
  const found: Uint8Array[] = []
  for await (const chunk of body) found.push(chunk)
  return Buffer.concat(found)
}

export async function keys(parts: Parts): Promise<string[]> {
  const found: string[] = []
  for await (const { key } of parts.list('')) found.push(key)
  return found
}

export function suite(name: string, open: Open): void {
  describe(name, () => {
    test('a part is read as it was stored, however it came', async (t) => {
      const parts = await open(t)
      const bytes = Buffer.alloc(1_048_604, 'part')
      await parts.put(
        KEY,
        0,
        chunks(bytes.subarray(0, 1), bytes.subarray(1, 700_000), bytes.subarray(700_000)),
        bytes.length,
      )
      await parts.put(KEY, 4095, chunks(Buffer.from('last')), 4)
      assert.deepEqual(await read(parts, KEY, 0, bytes.length), bytes)
      assert.deepEqual(await read(parts, KEY, 4095, 4), Buffer.from('last'))
      assert.equal(await read(parts, KEY, 1, 4), undefined)
      assert.equal(await read(parts, OTHER, 0, 4), undefined)
      // Cut by a broken disk.
      assert.equal(await read(parts, KEY, 4095, 5), undefined)
    })

    test('a body that fails, or has another length, leaves nothing and changes nothing', async (t) => {
      const parts = await open(t)
      await parts.put(KEY, 0, chunks(Buffer.from('first')), 5)
      for (const body of [failing(Buffer.from('fir')), chunks(Buffer.from('shor')), chunks(Buffer.from('longer'))]) {
        await assert.rejects(parts.put(KEY, 0, body, 5))
      }
      await assert.rejects(parts.put(OTHER, 0, failing(Buffer.from('x')), 5))
      assert.deepEqual(await read(parts, KEY, 0, 5), Buffer.from('first'))
      assert.equal(await read(parts, OTHER, 0, 5), undefined)
    })

    test('the same part from two connections at once is whole', async (t) => {
      const parts = await open(t)
      const bytes = Buffer.alloc(300_000, 'same')
      await Promise.all([1, 2, 3].map(() => parts.put(KEY, 7, chunks(bytes), bytes.length)))
      assert.deepEqual(await read(parts, KEY, 7, bytes.length), bytes)
    })

    test('a deleted file is gone with all its parts, and others stay', async (t) => {
      const parts = await open(t)
      assert.deepEqual(await keys(parts), [])
      for (const part of [0, 1, 2]) await parts.put(KEY, part, chunks(Buffer.from('x')), 1)
      await parts.put(OTHER, 0, chunks(Buffer.from('y')), 1)
      assert.deepEqual(await keys(parts), [KEY, OTHER])
      const after = await Array.fromAsync(parts.list(KEY))
      assert.deepEqual(
        after.map(({ key }) => key),
        [OTHER],
      )
      await parts.delete(KEY, 3)
      await parts.delete(KEY, 3)
      assert.deepEqual(await keys(parts), [OTHER])
      assert.equal(await read(parts, KEY, 1, 1), undefined)
      assert.deepEqual(await read(parts, OTHER, 0, 1), Buffer.from('y'))
    })
  })
}
