/** The last hashes of a chain, over restarts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { History } from '../../src/channel/log/history.ts'
import type { ChainRecord, Change, PositionRecord } from '../../src/ports/index.ts'

const START: PositionRecord = { index: 0, hash: new Uint8Array(32), slot: 0 }
const ID = '00'.repeat(16)

/** A disk with the rows of one chain. */
class Disk {
  readonly rows = new Map<number, ChainRecord>()

  write(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.type === 'putChain') this.rows.set(change.chain.first, structuredClone(change.chain))
      if (change.type === 'dropChain') assert.ok(this.rows.delete(change.first), 'each row is deleted once')
    }
  }

  get hashes(): number {
    return [...this.rows.values()].reduce((sum, { hashes }) => sum + hashes.length / 32, 0)
  }
}

function idOf(count: number): Uint8Array {
  return new Uint8Array(16)
    .fill(count % 256)
    .fill(Math.floor(count / 256), 1, 2)
    .fill(0, 15)
}

function advance(history: History, count: number): void {
  const kind = 'message'
  history.advance({ kind, sender: new Uint8Array(32), messageId: idOf(count), bodyHash: new Uint8Array(32) })
  if (count % 10 === 0) history.sentHere(idOf(count))
}

test('1,024 hashes and the agent’s own messages among them survive any number of restarts, and no more are kept', () => {
  const disk = new Disk()
  let history = new History(START)
  const hashes = [START.hash]
  for (let count = 1; count <= 5000; count++) {
    advance(history, count)
    hashes.push(history.position.hash)
    // More than are kept, in one write.
    if (count > 3000 && count < 4500) continue
    // Writes of a few.
    if (count % 7 === 0 || (count < 1500 && count % 3 === 0)) disk.write(history.drain(ID))
    if (count % 997 === 0) {
      disk.write(history.drain(ID))
      history = new History(history.position, [], [...disk.rows.values()])
    }
  }
  disk.write(history.drain(ID))
  assert.ok(disk.hashes >= 1024 && disk.hashes <= 1024 + 1024, `${disk.hashes} hashes`)
  const { position } = history
  const again = new History(position, [], [...disk.rows.values()])
  const first = position.index - 1023
  assert.equal(again.since, first)
  for (let index = first; index <= position.index; index++) {
    assert.equal(again.compare(index, hashes[index] ?? assert.fail()), true, String(index))
  }
  assert.equal(again.compare(first - 1, hashes[first - 1] ?? assert.fail()), undefined)
  assert.equal(again.ownIndex(idOf(4990)), 4990)
  assert.equal(again.ownIndex(idOf(4991)), undefined)
})

test('state that a crash undid is not compared, and that of another membership is discarded', () => {
  const disk = new Disk()
  const history = new History(START)
  for (let count = 1; count <= 20; count++) advance(history, count)
  disk.write(history.drain(ID))
  const { position } = history
  for (let count = 21; count <= 30; count++) advance(history, count)
  const again = new History(position, [], [...disk.rows.values()])
  assert.equal(again.since, 0)
  assert.equal(again.compare(25, history.position.hash), undefined)
  const other = new History({ ...position, hash: new Uint8Array(32).fill(1) }, [], [...disk.rows.values()])
  assert.equal(other.since, 20)
  disk.write(other.drain(ID))
  assert.deepEqual([...disk.rows.keys()], [20])
})

test('after a gap nothing before its end is compared, even after a restart', () => {
  const disk = new Disk()
  const history = new History(START)
  for (let count = 1; count <= 20; count++) advance(history, count)
  disk.write(history.drain(ID))
  history.skipTo({ index: 50, hash: new Uint8Array(32).fill(5), slot: 0 })
  advance(history, 51)
  disk.write(history.drain(ID))
  const again = new History(history.position, [], [...disk.rows.values()])
  assert.equal(again.since, 50)
  assert.equal(again.compare(50, new Uint8Array(32).fill(5)), true)
  assert.equal(again.compare(20, new Uint8Array(32)), undefined)
  assert.deepEqual([...disk.rows.keys()], [50])
})
