import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agreed } from '../support/reading.ts'
import { NAME, take, takeEnvelope, TestSystem, waysFor } from '../support/test-system.ts'

for (const way of waysFor('quic')) {
  test(`two agents exchange messages, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const alice = await world.agent('alice')
    const bob = await world.agent('bob')
    const [a, b] = await world.channel(alice, [bob])
    await a!.send('hello bob')
    assert.deepEqual(await take(b!, 1), ['hello bob'])
    await b!.send('hello alice')
    const { payload, sender, index, redelivered } = await takeEnvelope(a!)
    assert.equal(Buffer.from(payload).toString(), 'hello alice')
    assert.equal(sender.agentId, bob.agentId)
    assert.equal(sender.fingerprint, bob.fingerprint())
    assert.equal(Buffer.from(sender.identity).toString(), 'bob')
    // Founder removed, bob added, keys replaced, hello bob, this.
    assert.equal(index, 5)
    assert.equal(redelivered, false)
    await agreed(a!, b!)
  })

  test(`a restarted program reopens its channels by name, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const alice = await world.agent('alice')
    let bob = await world.agent('bob')
    const [a] = await world.channel(alice, [bob])
    await bob.close()
    for (let n = 0; n < 5; n++) await a!.send(`while away ${n}`)
    bob = await world.agent('bob')
    const again = bob.channel(NAME)
    assert.deepEqual(
      await take(again, 5),
      [0, 1, 2, 3, 4].map((n) => `while away ${n}`),
    )
    await again.send('back')
    assert.deepEqual(await take(a!, 1), ['back'])
  })

  test(`an agent that was offline catches up without reading a message, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const alice = await world.agent('alice')
    let bob = await world.agent('bob')
    const [a] = await world.channel(alice, [bob])
    await bob.close()
    for (let n = 0; n < 300; n++) await a!.send(`while away ${n}`)
    const carol = await world.agent('carol')
    await a!.addMember(await carol.generateKeyPackage())
    bob = await world.agent('bob')
    const again = bob.channel(NAME)
    await Promise.all([again.catchUp(), a!.catchUp()])
    assert.equal(again.verify(), a!.verify())
    assert.equal(again.members().length, 3)
    await bob.close()
    await a!.delete()
    bob = await world.agent('bob')
    await assert.rejects(bob.channel(NAME).catchUp(), { code: 'not_found' })
    assert.equal((await take(bob.channel(NAME), 300)).length, 300)
  })
}
