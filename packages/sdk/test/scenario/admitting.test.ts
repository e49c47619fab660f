/** Joining while the owner is away: a member admits, and the owner confirms when it returns. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { event, NAME, take, TestSystem, waysFor } from '../support/test-system.ts'

for (const way of waysFor('grpc')) {
  test(`${way}: a guest joins while the owner is off, and the owner confirms it`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner')
    const member = await world.manager('member', { chance: () => 0 })
    await owner.create(NAME)
    const first = await owner.invite(NAME)
    const channel = await member.joinWithToken(NAME, first)
    assert.equal(channel.confirmed, true)
    const token = await owner.invite(NAME, { admit: 'members', maxUses: 2 })
    await channel.catchUp()
    await owner.close()

    const guest = await world.manager('guest', { account: null })
    const joined = await guest.joinWithToken(NAME, token)
    assert.equal(joined.confirmed, false)
    await joined.send('hello from the guest')
    assert.deepEqual(await take(channel, 1), ['hello from the guest'])

    const confirmed = event(guest.client, 'confirmed')
    const back = await world.manager('owner')
    await confirmed
    assert.equal(joined.confirmed, true)
    assert.deepEqual(
      back.invites(NAME).map(({ admit, uses, maxUses }) => ({ admit, uses, maxUses })),
      [
        { admit: 'owner', uses: 1, maxUses: 1 },
        { admit: 'members', uses: 1, maxUses: 2 },
      ],
    )
  })
}
