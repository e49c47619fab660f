import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyUsageBuffer } from '../src/rules/key-usage.ts'

const METER = { accountId: 'account', mode: 'live', period: Date.UTC(2027, 0) } as const

test('a count read while exchanges are being written includes each of them once', async () => {
  let written = 0
  const { promise: hold, resolve: release } = Promise.withResolvers<void>()
  const usage = {
    addTokenExchanges: async (counts: readonly { readonly count: number }[]): Promise<void> => {
      await hold
      for (const { count } of counts) written += count
    },
  }
  const buffer = new KeyUsageBuffer({ touch: async () => {} }, usage, () => METER.period)
  const count = async (query: () => Promise<number>): Promise<number> =>
    (await buffer.betweenWrites(query)) + buffer.pendingExchanges(METER)

  buffer.recordExchange({ id: 'key', ...METER })
  const underWay = buffer.flush()
  const during = count(async () => written)
  release()
  assert.equal(await during, 1)
  await underWay

  buffer.recordExchange({ id: 'key', ...METER })
  const overtaken = count(async () => {
    const found = written
    await buffer.flush()
    return found
  })
  assert.equal(await overtaken, 2)
})

test('a count completes although every read coincides with a write', async () => {
  const usage = { addTokenExchanges: async (): Promise<void> => {} }
  const buffer = new KeyUsageBuffer({ touch: async () => {} }, usage, () => METER.period)
  let reads = 0
  await buffer.betweenWrites(async () => {
    reads++
    await buffer.flush()
  })
  assert.equal(reads, 3)
})
