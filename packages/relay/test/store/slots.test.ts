/** The window of commits that can be rejected, when somebody has burnt it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Context } from '../../src/store/ledger/context.ts'
import { judgeSlots, keepSlot } from '../../src/store/ledger/commits/slots.ts'
import { newAccount, newChannel, type Slot } from '../../src/store/ledger/state.ts'
import { account, RETENTION, START } from './channel-fixture.ts'

const MAX_SLOTS = 16_384

test('after a roster reset a used-up window is open to all members again, and no more slots are kept', () => {
  const dropped: number[] = []
  const record = newAccount(account('alice'))
  const slots = {
    get: () => undefined,
    put: () => {},
    drop: (_: unknown, slot: number) => ({ slots: dropped.push(slot), turns: 0 }),
  }
  const rows = { slots, channels: { changed: () => {} }, accounts: { get: () => record } }
  const context = { rows, retention: RETENTION } as unknown as Context
  const position = { index: MAX_SLOTS, hash: new Uint8Array(32), slot: MAX_SLOTS }
  const fields = {
    id: '',
    name: '',
    createdAt: START,
    account: account('alice'),
    owner: '',
    guestLimit: 0,
    last: position,
  }
  const channel = { ...newChannel(1, fields), slotAt: START }
  assert.equal(judgeSlots(context, channel, START)?.refused, 'rate_limited')
  channel.settled = MAX_SLOTS
  assert.equal(judgeSlots(context, channel, START), undefined)
  keepSlot(context, channel, { slot: MAX_SLOTS, position, at: START } as Slot)
  assert.deepEqual([dropped, channel.firstSlot], [[0], 1])
})
