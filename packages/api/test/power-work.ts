/** Numbered changes of the API's database, and what must be there once they were answered. */
import assert from 'node:assert/strict'
import type { AuditEvent } from '@static/protocol'
import type { AccountRecord, AuditEntry, KeyRecord, Store } from '../src/ports.ts'

/** A change that the store has answered. */
export interface Said {
  readonly what: 'created' | 'leased' | 'settled' | 'revoked' | 'suspended'
  /** Of this account. */
  readonly n: number
}

export const METER_PERIOD: number = Date.UTC(2026, 10, 1)
const NOW = Date.UTC(2026, 10, 16)

const idOf = (kind: number, n: number): string => `01a00000-0000-7000-800${kind}-${String(n).padStart(12, '0')}`

export const leaseOf = (n: number): string => idOf(3, n)

export function accountOf(n: number): AccountRecord {
  return {
    id: idOf(1, n),
    email: `person-${n}@example.com`,
    name: null,
    passwordHash: `hash ${n}`,
    plan: 'free',
    status: 'active',
    createdAt: NOW,
  }
}

export function keyOf(n: number): KeyRecord {
  return {
    id: idOf(2, n),
    accountId: accountOf(n).id,
    prefix: `sk_live_${String(n).padStart(8, '0')}`,
    name: 'first',
    mode: 'live',
    hash: `key hash ${n}`,
    createdAt: NOW,
    lastUsedAt: null,
  }
}

export function entryFor(n: number, event: AuditEvent): AuditEntry {
  return { accountId: accountOf(n).id, at: NOW, actor: 'system', event }
}

/** Whether everything that was answered is there, once. */
export async function assertAll(store: Store, said: readonly Said[], place: string): Promise<void> {
  for (const { what, n } of said) {
    const key = await store.keys.byPrefix(keyOf(n).prefix)
    assert.equal(key?.accountId, accountOf(n).id, `${place}: ${what} ${n}`)
    const meter = { accountId: key.accountId, mode: 'live', period: METER_PERIOD } as const
    const { used, reserved } = await store.usage.read(meter, '2026-11-01')
    if (what === 'leased') assert.equal(used + reserved, 10, `${place}: lease ${n}`)
    if (what === 'settled') assert.deepEqual([used, reserved], [4, 6], `${place}: settled ${n}`)
    if (what === 'revoked') assert.notEqual(key.revokedAt, null, `${place}: revoked ${n}`)
    if (what === 'suspended') assert.equal(key.status, 'suspended', `${place}: suspended ${n}`)
  }
}
