/** What the disk has changed is noticed and never served (trust.md, T3). */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { StaticError } from '@static/protocol'
import { type SqliteStore, openSqliteStore } from '../../src/store/sqlite/store.ts'
import {
  RETENTION,
  ChannelFixture,
  accepted,
  agentId,
  hex16,
  id16,
  member,
  notice,
  temporaryFile,
  text,
  welcomeFor,
} from './channel-fixture.ts'

/** A world that was closed, some change in its file, and the world again. */
async function changed(
  t: TestContext,
  ...statements: readonly string[]
): Promise<ChannelFixture & { store: SqliteStore }> {
  const path = temporaryFile(t)
  const open = async (): Promise<ChannelFixture & { store: SqliteStore }> => {
    const store = await openSqliteStore({ path, retention: RETENTION }, () => undefined)
    t.after(() => store.close())
    return new ChannelFixture(store, []) as ChannelFixture & { store: SqliteStore }
  }
  const before = await open()
  await before.found('alice', 'bob', 'carol')
  await before.chatter('bob', 200)
  accepted(await before.leave('carol'))
  const gone = { removes: ['carol'], notices: [notice('carol', 1)] }
  accepted(
    await before.commit('alice', { ...gone, adds: ['dave'], welcomes: [welcomeFor('dave')], groupInfo: text('g') }),
  )
  const invite = {
    id: hex16('one'),
    channel: before.channel,
    admissionKey: text('k'),
    expiresAt: before.now + 1e9,
    maxUses: 5,
    members: false,
  }
  await before.run('registerInvite', { actor: member('alice'), invite, maxInvites: 10, now: before.now })
  await before.store.close()
  const db = new DatabaseSync(path)
  // One bit of a blob.
  db.function('flip', (bytes) => (bytes as Uint8Array).map((byte, at) => (at === 0 ? byte ^ 1 : byte)))
  for (const statement of statements) assert.equal(db.prepare(statement).run().changes, 1, statement)
  db.close()
  const world = await open()
  world.head = 2
  return world
}

const entry = (index: number, change: string): string =>
  `UPDATE entries SET ${change} WHERE key & 0xfffffffff = ${index}`

async function assertDamaged(promise: Promise<unknown>, world: ChannelFixture): Promise<void> {
  await assert.rejects(promise, (error: unknown) => {
    assert.ok(error instanceof StaticError)
    assert.equal(error.code, 'unavailable')
    assert.match((error.cause as Error).message, /damaged/)
    return true
  })
  assert.equal(world.store.healthy(), false)
}

test('members of a channel that can no longer be found are not told that they are in none', async (t) => {
  const world = await changed(t, 'UPDATE channels SET id = flip(id)')
  await assertDamaged(world.read('bob', 1), world)
  await assertDamaged(world.standing('bob'), world)
})

for (const [what, change] of Object.entries({
  body: `body = flip(body)`,
  sender: `sender = flip(sender)`,
  'message id': `message_id = flip(message_id)`,
  hash: `hash = flip(hash)`,
  kind: 'kind = 2',
  slot: 'slot = 3',
  time: 'at = at + 1',
  counter: 'counter = counter + 1',
  control: 'control = 1',
})) {
  test(`an entry with a damaged ${what} is not served, nor is anything after it in the same read`, async (t) => {
    const world = await changed(t, entry(100, change))
    assert.equal(world.store.healthy(), true)
    assert.equal((await world.read('bob', 1, { maxEntries: 98 })).entries.length, 98)
    await assertDamaged(world.read('bob', 1), world)
    await assertDamaged(world.read('bob', 99, { maxEntries: 1 }), world)
    // What is not damaged goes on; ill the store stays.
    accepted(await world.say('alice'))
    assert.equal((await world.read('bob', 150)).entries.length, 54)
    assert.equal(world.store.healthy(), false)
  })
}

test('the fields of commits and leaves are also covered', async (t) => {
  for (const index of [202, 203]) {
    const world = await changed(t, entry(index, `body = flip(body)`))
    await assertDamaged(world.read('alice', index - 1), world)
    await world.store.close()
  }
})

test('a missing entry is detected', async (t) => {
  const world = await changed(t, 'DELETE FROM entries WHERE key & 0xfffffffff = 100')
  await assertDamaged(world.read('bob', 1), world)
  await assertDamaged(world.ack('bob', 100), world)
})

test('a position is not taken from a damaged entry', async (t) => {
  const world = await changed(t, entry(100, `hash = flip(hash)`))
  await assertDamaged(world.ack('bob', 100), world)
  assert.equal((await world.stand('bob')).cursor.index, 1)
})

for (const [what, statement] of Object.entries({
  'the last entry': entry(203, `hash = flip(hash)`),
  'the channel’s place': `UPDATE channels SET last_hash = flip(last_hash)`,
  'the channel’s counts': 'UPDATE channels SET guest_count = 5',
  'a member’s cursor': `UPDATE members SET cursor_hash = flip(cursor_hash) WHERE agent = x'${agentId('alice')}'`,
  'a sender’s counter': `UPDATE senders SET counter = 5 WHERE agent = x'${agentId('alice')}'`,
})) {
  test(`no operation uses a channel when ${what} was changed`, async (t) => {
    const world = await changed(t, statement)
    await assertDamaged(world.say('alice'), world)
    await assertDamaged(world.read('alice', 1), world)
    if (!what.includes('entry')) await assertDamaged(world.standing('alice'), world)
  })
}

test('Welcomes, invites, slots, turns, foundings and ids are checked when used', async (t) => {
  const world = await changed(
    t,
    `UPDATE welcomes SET welcome = flip(welcome)`,
    `UPDATE invites SET admission_key = flip(admission_key)`,
    `UPDATE slots SET record = replace(record, '"rejected":false', '"rejected":true ') WHERE slot = 1`,
    `UPDATE turns SET record = replace(record, '"adds":true', '"adds":null') WHERE agent = x'${agentId('bob')}'`,
    `UPDATE foundings SET welcome = flip(welcome)`,
    `UPDATE ids SET entry = 7 WHERE entry = 2`,
  )
  await assertDamaged(world.waiting('dave'), world)
  await assertDamaged(world.run('invite', { id: hex16('one') }), world)
  await assertDamaged(world.reject(member('alice'), 1), world)
  await assertDamaged(world.reject(member('alice'), 0), world)
  await assertDamaged(world.create('alice'), world)
  // The first message of the story, once more.
  await assertDamaged(world.say('bob', { messageId: id16('message 1') }), world)
})

test('the GroupInfo that Welcomes share is checked when used', async (t) => {
  const changes = ['group_infos SET group_info = flip(group_info)', 'welcomes SET shared = NULL']
  for (const change of changes) {
    const world = await changed(t, `UPDATE ${change}`)
    await assertDamaged(world.waiting('dave'), world)
    await world.store.close()
  }
})

test('a file with damaged secrets is not opened', async (t) => {
  await assert.rejects(changed(t, `UPDATE deployment SET token_key = flip(token_key)`), { code: 'store_corrupt' })
})
