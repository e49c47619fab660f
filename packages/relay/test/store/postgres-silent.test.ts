/** A way to PostgreSQL on which packets get lost: connections stay open, and nobody answers. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { parsePostgresUrl } from '@static/node/postgres-address'
import { type Gate, openGate } from '@static/testkit/gate'
import { connect } from '../../src/store/postgres/connector.ts'
import { Session } from '../../src/store/postgres/session.ts'
import { emptyScratch, openScratch } from '../support/postgres.ts'
import { accepted, ChannelFixture, RETENTION } from './channel-fixture.ts'

const { url, keyFile } = await emptyScratch()
const gate: Gate = await openGate(Number(new URL(url).port))
after(() => gate[Symbol.asyncDispose]())
/** Through the gate. */
const gated = new URL(url)
gated.port = String(gate.port)

/** Long after the silence is noticed and nobody says whether the message was stored, long before an answer is given up. */
const LATE_MS = 18_000

test('a silent server is soon given up, and used again when it answers', async (t) => {
  const store = await openScratch({ url: gated.href, keyFile }, RETENTION, () => {}, { examineMs: 200 })
  t.after(() => store.close())
  const world = new ChannelFixture(store, [])
  await world.found('alice')
  const request = world.message('alice')
  gate.cut()
  const late = wait(LATE_MS, 'late', { ref: false })
  const answer = await Promise.race([store.run('append', request).catch((error: { code: string }) => error.code), late])
  assert.equal(answer, 'unavailable')
  assert.equal(store.healthy(), false)
  assert.ok((store.silentMs?.() ?? 0) > 0)
  gate.mend()
  while (!store.healthy()) await wait(20)
  accepted(await store.run('append', request))
  assert.equal(store.silentMs?.(), 0)
})

test('a host that is silent does not delay the next one', async () => {
  gate.cut()
  const { hosts, ...rest } = parsePostgresUrl(gated.href)
  const silent = hosts[0]!
  const two = { ...rest, hosts: [silent, ...parsePostgresUrl(url).hosts] }
  const alone = Session.open(rest as typeof two, silent).then(
    () => assert.fail('The gate is cut.'),
    () => 'given up',
  )
  const { session } = (await Promise.race([connect(two), alone])) as Awaited<ReturnType<typeof connect>>
  assert.ok(session instanceof Session)
  await session.end()
  await alone
  gate.mend()
})
