/**
 * A process that changes the API's database until it is killed, and says each change once the store has answered.
 * Argument: the database file.
 */
import { sayAtOnce } from '@static/testkit/crash/say'
import { openStore } from '../src/db/store.ts'
import { accountOf, entryFor, keyOf, leaseOf, METER_PERIOD, type Said } from './power-work.ts'

const store = await openStore(process.argv[2] ?? '')

function say(what: Said['what'], n: number): void {
  sayAtOnce(JSON.stringify({ what, n } satisfies Said))
}

for (let n = 1; ; n++) {
  const account = accountOf(n)
  await store.accounts.create(account, { key: keyOf(n), entries: [entryFor(n, 'account_created')] })
  say('created', n)
  const meter = { accountId: account.id, mode: 'live', period: METER_PERIOD } as const
  await store.leases.grant({ ...meter, id: leaseOf(n), expiresAt: 2e12, limit: 100 }, () => 10)
  say('leased', n)
  await store.leases.settle(leaseOf(n), (lease) => ({
    lease: { ...lease, spent: 4 },
    used: 4,
    reserved: -4,
    keys: {},
    day: '2026-11-16',
  }))
  say('settled', n)
  if (n % 2 === 0) {
    await store.keys.revoke(keyOf(n).id, ['live'], entryFor(n, 'key_revoked'))
    say('revoked', n)
  }
  if (n % 3 === 0) {
    await store.accounts.change(account.id, { status: 'suspended' }, entryFor(n, 'account_suspended'))
    say('suspended', n)
  }
}
