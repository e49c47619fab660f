/** What calls accept, return and say: payloads, receipts, members that join, and a member that was removed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { code, event, NAME, take, takeEnvelope, TestSystem } from '../support/test-system.ts'

test('strings and bytes are sent unchanged, JSON as JSON, and anything else is refused by its type', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const [alice, bob] = [await world.agent('alice'), await world.agent('bob')]
  const [channel, joined] = await world.channel(alice, [bob], NAME)
  const bad: readonly [unknown, RegExp][] = [
    [{ task: 1 }, /not an object\. Use `sendJson`/],
    [42, /not a number/],
    [null, /not null/],
    [undefined, /not undefined/],
    [[1, 2], /not an Array/],
    [new ArrayBuffer(3), /not an ArrayBuffer\. Pass `new Uint8Array/],
    [new Uint16Array([1, 500]), /not an? Uint16Array\. Pass its bytes/],
    [new DataView(new ArrayBuffer(2)), /not a DataView/],
  ]
  for (const [payload, words] of bad) {
    await assert.rejects(channel!.send(payload as string), code('invalid_request', words))
  }
  await assert.rejects(channel!.sendJson(undefined), code('invalid_request', /JSON/))
  await assert.rejects(channel!.sendJson(1n), code('invalid_request', /JSON/))
  // A view of a part of a buffer is that part.
  const buffer = new Uint8Array([1, 2, 3, 4]).buffer
  const first = await channel!.send(new Uint8Array(buffer, 1, 2))
  const second = await channel!.send(Buffer.from('grüße'))
  await channel!.sendJson({ task: 1 })
  await channel!.send(new Uint8Array([0xff]))
  const bytes = await takeEnvelope(joined!)
  assert.deepEqual([...bytes.payload], [2, 3])
  assert.deepEqual([bytes.messageId, bytes.index], [first.messageId, first.index])
  const words = await takeEnvelope(joined!)
  assert.deepEqual([words.text(), words.messageId, words.index], ['grüße', second.messageId, second.index])
  assert.throws(() => words.json(), code('invalid_json'))
  assert.deepEqual((await takeEnvelope(joined!)).json(), { task: 1 })
  const broken = await takeEnvelope(joined!)
  assert.throws(() => broken.text(), code('invalid_request', /UTF-8/))
})

test('waiting for a member resolves when it joins, and fails otherwise', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const [alice, bob] = [await world.agent('alice'), await world.agent('bob')]
  const channel = await alice.createChannel(NAME)
  await assert.rejects(channel.waitForMember(undefined, { signal: AbortSignal.abort() }), code('cancelled'))
  const anyone = channel.waitForMember()
  const one = channel.waitForMember(bob.agentId)
  const never = channel.waitForMember('00'.repeat(32))
  const ended = assert.rejects(never, code('closed'))
  await channel.addMember(await bob.generateKeyPackage())
  assert.deepEqual([(await anyone).agentId, (await one).agentId], [bob.agentId, bob.agentId])
  await alice.close()
  await ended
})

test('a message whose loop throws is redelivered after an orderly close; messages that came meanwhile are not marked', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const alice = await world.agent('alice')
  let bob = await world.agent('bob')
  const [channel, joined] = await world.channel(alice, [bob], NAME)
  await channel!.send('one')
  await channel!.send('two')
  const work = async (): Promise<void> => {
    for await (const envelope of joined!.envelopes()) throw new Error(`cannot ${envelope.text()}`)
  }
  await assert.rejects(work(), /cannot one/)
  await bob.close()
  await channel!.send('three')
  bob = await world.agent('bob')
  const seen: [string, boolean][] = []
  for await (const envelope of bob.channel(NAME).envelopes()) {
    seen.push([envelope.text(), envelope.redelivered])
    if (seen.length === 3) break
  }
  assert.deepEqual(seen, [
    ['one', true],
    ['two', false],
    ['three', false],
  ])
})

test('after a member is removed, every call says so', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.manager('owner')
  let member = await world.manager('member')
  const channel = await owner.create(NAME)
  const joined = await member.joinWithToken(NAME, await owner.invite(NAME), 20)
  await channel.send('last')
  assert.deepEqual(await take(joined, 1), ['last'])
  const failed = event(member.client, 'channel_failed')
  await channel.removeMember(member.client.agentId)
  await failed
  await new Promise(setImmediate)
  const calls: readonly (() => unknown)[] = [
    () => member.send(NAME, 'x'),
    () => member.receive(NAME, 1),
    () => member.receiveEnvelopes(NAME, 1),
    () => member.invite(NAME),
    () => member.client.channel(NAME),
    () => joined.send('x'),
    () => joined.members(),
    () => joined.verify(),
    () => joined.catchUp(),
    () => joined.rotate(),
    () => joined.addMember(owner.client.agentId),
    () => joined.removeMember(owner.client.agentId),
    () => joined.resetRoster(),
    () => joined.delete(),
    () => joined.messages().next(),
    () => joined.handle(() => {}),
  ]
  for (const call of calls) await assert.rejects(async () => await call(), code('removed'), String(call))
  // Also when it starts again.
  await member.close()
  member = await world.manager('member')
  await assert.rejects(member.send(NAME, 'x'), code('removed'))
  // It can come back.
  await member.joinWithToken(NAME, await owner.invite(NAME), 20)
  await member.send(NAME, 'back')
})

test('a join with swapped arguments says so, and repeats neither token nor link', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const manager = await world.manager('owner')
  await manager.create(NAME)
  const token = await manager.invite(NAME)
  await assert.rejects(manager.joinWithToken(token, NAME), code('invalid_request', /swapped/))
  const secrets = [token, `static://${token.slice(7)}`]
  const calls = secrets.flatMap((secret) => [
    () => manager.joinWithToken(secret, NAME),
    () => manager.joinWithToken(secret, secret),
    () => manager.joinWithLink(`x${secret}`),
    () => manager.create(secret),
    () => manager.revokeInvite(`x${secret}`),
  ])
  for (const call of calls) {
    await assert.rejects(call, (error: Error) => !JSON.stringify(error).includes(token.slice(7, 30)))
  }
})

test('a call refuses an option that it does not know, or of another type, and does nothing', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const manager = await world.manager('owner')
  const [channel, bob] = [await manager.create(NAME), await world.agent('bob')]
  const sent = await channel.send('one')
  const id = bob.agentId
  /** Each call, with options as JavaScript can pass them, and a misspelled one with the name that is meant. */
  const calls: Readonly<Record<string, readonly [call: (options: never) => unknown, wrong: object, meant: string]>> = {
    invite: [(options) => manager.invite(NAME, options), { uses: 2 }, 'maxUses'],
    inviteLink: [(options) => manager.inviteLink(NAME, options), { endPoint: 'quic://a' }, 'endpoint'],
    send: [(options) => channel.send('x', options), { timeoutMs: 5 }, 'timeout'],
    sendJson: [(options) => channel.sendJson('x', options), { timeOut: 5 }, 'timeout'],
    handle: [(options) => channel.handle(() => {}, options), { attempt: 1 }, 'attempts'],
    serve: [(options) => channel.serve(async () => 'x', options), { per_asker: 1 }, 'perAsker'],
    ask: [(options) => channel.ask('x', options), { two: id }, 'to'],
    askOne: [(options) => channel.askOne('x', options), { too: id }, 'to'],
    askJson: [(options) => channel.askJson('x', options), { shema: undefined }, 'schema'],
    reached: [(options) => channel.reached(sent, 'settled', options), { bye: [id] }, 'by'],
    waitForMember: [(options) => channel.waitForMember(id, options), { time: 1 }, 'timeout'],
    addMember: [(options) => channel.addMember(id, options), { acceptNewKeys: true }, 'acceptNewKey'],
    addMembers: [(options) => channel.addMembers([id], options), { acceptKey: true }, 'acceptNewKey'],
    catchUp: [(options) => channel.catchUp(options), { signals: undefined }, 'signal'],
    joinChannel: [(options) => bob.joinChannel(NAME, new Uint8Array(3), options), { ownr: 'x' }, 'owner'],
    'Manager.send': [(options) => manager.send(NAME, 'x', options), { timeoutSeconds: 5 }, 'timeout'],
  }
  for (const [name, [call, wrong, meant]] of Object.entries(calls)) {
    const words = new RegExp(
      `^\\\`${name.replace('Manager.', '')}\\\` has no option .* The nearest is \\\`${meant}\\\`\\.$`,
    )
    await assert.rejects(async () => await call(wrong as never), code('invalid_request', words), name)
    const other = { [meant]: Symbol(name) }
    const type = code('invalid_request', /^`\w+` of `\w+` is Symbol\(.*\)\. It must be /)
    await assert.rejects(async () => await call(other as never), type, name)
    await assert.rejects(async () => await call(null as never), code('invalid_request', /must be an object/), name)
  }
  const signal = { signal: {} } as never
  await assert.rejects(channel.send('x', signal), code('invalid_request', /must be an AbortSignal/))
  for (const call of [channel.handle('x' as never), channel.serve(undefined as never)])
    await assert.rejects(call, code('invalid_request', /must be a function/))
  const asked = channel.asked().length + manager.invites(NAME).length + channel.members().length
  assert.equal(asked, 1)
  const next = await channel.send('two')
  assert.equal(next.index, sent.index + 1)
})

test('a client invites and joins without a manager, and admits joiners again after a restart', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let owner = await world.agent('owner')
  const guest = await world.agent('guest', { account: null })
  const channel = await owner.createChannel(NAME)
  const joined = await guest.joinWithToken(NAME, await owner.invite(NAME), 20)
  await joined.send('hello')
  assert.deepEqual(await take(channel, 1), ['hello'])
  const token = await owner.invite(NAME, { maxUses: 2 })
  assert.deepEqual(
    owner.invites(NAME).map(({ state, maxUses }) => [state, maxUses]),
    [
      ['used_up', 1],
      ['open', 2],
    ],
  )
  await owner.close()
  const late = await world.agent('late', { account: null })
  const joining = late.joinWithToken(NAME, token, 20)
  owner = await world.agent('owner')
  assert.equal((await joining).name, NAME)
  await owner.revokeInvite(token)
  const other = await world.agent('other', { account: null })
  await assert.rejects(other.joinWithToken(NAME, token, 20), code('invite_revoked'))
  // What cannot work makes nothing.
  await assert.rejects(guest.invite(NAME), code('not_allowed'))
  await assert.rejects(other.joinWithLink('static://nonsense'), code('invite_invalid'))
  for (const timeout of ['5', NaN, -1, null])
    await assert.rejects(
      other.joinWithToken(NAME, token, timeout as never),
      code('invalid_request', /`timeout` of `joinWithToken`/),
    )
  assert.deepEqual(other.channels(), [])
})
