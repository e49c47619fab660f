/** Hellos and greetings: one greeting answers all hellos that came while another was on its way. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import { Joins } from '../../src/joining/joins.ts'
import { InviteIssuer } from '../../src/admitting/issuer.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'

const CHANNEL = toHex(randomBytes(16))
const OWNER = toHex(randomBytes(32))
const NOW = Date.now()

/** No one has come by an invite that members may use. */
const NO_USES = { hello: () => undefined, hellosAnswered: () => undefined }
const NO_VOUCHES = { isVouched: () => false }

/** A channel that a joiner has entered, and that does not greet it by itself. */
const ENTERED = { id: CHANNEL, name: 'acme/x/y', owner: OWNER, state: 'joining', group: {} }

/** The agent of a joiner that has entered a channel. */
function joinerIn(channel: object, record: object): object {
  const context = { journal: { add: () => undefined }, now: () => NOW }
  const keyPackages = { forget: () => undefined }
  return { context, keyPackages, channels: new Map([[CHANNEL, channel]]), stored: { attempts: [record] } }
}

interface Joiner {
  readonly agent: string
  readonly nonce: Uint8Array
}

function joiners(count: number): Joiner[] {
  return Array.from({ length: count }, () => ({ agent: toHex(randomBytes(32)), nonce: randomBytes(16) }))
}

test('one greeting answers all hellos that arrived while another was being sent', async () => {
  const secret = randomBytes(32)
  const invite = toHex(inviteKeys(secret).inviteId)
  const crowd = joiners(5)
  const stored = {
    invites: [
      {
        id: invite,
        channel: CHANNEL,
        secret,
        expiresAt: NOW + 1e6,
        maxUses: 9,
        uses: 5,
        returned: 0,
        revoked: false,
        admit: 'owner',
      },
    ],
    joiners: crowd.map((joiner) => {
      const keyPackageHash = randomBytes(32)
      return {
        channel: CHANNEL,
        invite,
        ...joiner,
        keyPackageHash,
        spent: new Uint8Array(),
        state: 'added',
        since: NOW,
      }
    }),
  }
  const context = { now: () => NOW, journal: { add: () => undefined } }
  const agent = { hasAccountSession: true, context, stored, timers: { every: () => () => undefined } }
  const issuer = new InviteIssuer(agent as never, 'relay.test', () => undefined)
  const sent: { payload: Uint8Array; done: () => void }[] = []
  const send = (_: string, payload: Uint8Array): Promise<void> =>
    new Promise((resolve) => sent.push({ payload, done: resolve }))
  const hello = ({ agent: from, nonce }: Joiner): void =>
    issuer.hello({ id: CHANNEL, sender: { send }, listedInvites: NO_USES, receipts: NO_VOUCHES } as never, from, nonce)

  for (const joiner of crowd.slice(0, 4)) hello(joiner)
  // Who does not know its nonce is not answered.
  hello({ ...crowd[4]!, nonce: randomBytes(16) })
  sent[0]!.done()
  await new Promise(setImmediate)
  assert.deepEqual(
    sent.map(({ payload }) => toHex(payload)),
    [crowd.slice(0, 1), crowd.slice(1, 4)].map((some) => some.map(({ nonce }) => toHex(nonce)).join('')),
  )
  sent[1]!.done()
  await new Promise(setImmediate)
  hello(crowd[4]!)
  assert.deepEqual(toHex(sent[2]!.payload), toHex(crowd[4]!.nonce))
})

test('members that keep saying hello get one greeting a minute together, each greeting in the smallest message', async () => {
  const secret = randomBytes(32)
  const invite = toHex(inviteKeys(secret).inviteId)
  const crowd = joiners(150)
  const stored = {
    invites: [
      {
        id: invite,
        channel: CHANNEL,
        secret,
        expiresAt: NOW + 1e7,
        maxUses: 9,
        uses: 5,
        returned: 0,
        revoked: false,
        admit: 'owner',
      },
    ],
    joiners: crowd.map((joiner) => {
      const keyPackageHash = randomBytes(32)
      return {
        channel: CHANNEL,
        invite,
        ...joiner,
        keyPackageHash,
        spent: new Uint8Array(),
        state: 'added',
        since: NOW,
      }
    }),
  }
  let now = NOW
  let timers: { at: number; action: () => void }[] = []
  const later = (ms: number, action: () => void): void => void timers.push({ at: now + ms, action })
  const context = { now: () => now, journal: { add: () => undefined }, later }
  const agent = { hasAccountSession: true, context, stored, timers: { every: () => () => undefined } }
  const issuer = new InviteIssuer(agent as never, 'relay.test', () => undefined)
  const sent: number[] = []
  const send = async (_: string, payload: Uint8Array): Promise<void> => void sent.push(payload.length / 16)
  const channel = { id: CHANNEL, sender: { send }, listedInvites: NO_USES, receipts: NO_VOUCHES } as never
  const minute = async (): Promise<void> => {
    for (const end = now + 60_000; now < end; now += 10_000) {
      for (const { agent: from, nonce } of crowd) issuer.hello(channel, from, nonce)
      const due = timers.filter(({ at }) => at <= now)
      timers = timers.filter(({ at }) => at > now)
      for (const { action } of due) action()
      await new Promise(setImmediate)
    }
  }
  await minute()
  // Each was greeted at once; the first of them alone, because none was on its way.
  assert.equal(
    sent.slice(0, 4).reduce((sum, count) => sum + count),
    150,
  )
  assert.ok(Math.max(...sent) <= 64, `${Math.max(...sent)} in one greeting`)
  sent.length = 0
  for (let minutes = 0; minutes < 10; minutes++) await minute()
  assert.ok(sent.length <= 3 * 11, `${sent.length} greetings in ten minutes`)
  assert.ok(sent.reduce((sum, count) => sum + count) >= 9 * 150, 'all are answered')
})

test('a member that came by an invite for members cannot make greetings long or many by its hellos', async () => {
  const context = { now: () => NOW, journal: { add: () => undefined } }
  const agent = {
    hasAccountSession: true,
    context,
    stored: { invites: [], joiners: [] },
    timers: { every: () => () => undefined },
  }
  const issuer = new InviteIssuer(agent as never, 'relay.test', () => undefined)
  const sent: { payload: Uint8Array; done: () => void }[] = []
  const send = (_: string, payload: Uint8Array): Promise<void> =>
    new Promise((resolve) => sent.push({ payload, done: resolve }))
  const listedInvites = { hello: () => 'now', hellosAnswered: () => undefined }
  const [mallory, honest] = joiners(2) as [Joiner, Joiner]
  const hello = (from: string, nonce: Uint8Array): void =>
    issuer.hello({ id: CHANNEL, sender: { send }, listedInvites } as never, from, nonce)

  for (const length of [0, 15, 17, 262_144]) hello(mallory.agent, new Uint8Array(length))
  assert.equal(sent.length, 0)
  hello(mallory.agent, mallory.nonce)
  for (let n = 0; n < 500; n++) hello(mallory.agent, randomBytes(16))
  hello(mallory.agent, mallory.nonce)
  hello(honest.agent, honest.nonce)
  sent[0]!.done()
  await new Promise(setImmediate)
  assert.deepEqual(
    sent.map(({ payload }) => toHex(payload)),
    [toHex(mallory.nonce), toHex(mallory.nonce) + toHex(honest.nonce)],
  )
  sent[1]!.done()
  await new Promise(setImmediate)
  assert.equal(sent.length, 2)
})

test('a joiner finds its nonce in a greeting, and only a complete one from the owner', () => {
  const [mine, ...others] = joiners(4)
  const secret = randomBytes(32)
  const record = {
    invite: toHex(inviteKeys(secret).inviteId),
    channel: CHANNEL,
    name: 'acme/x/y',
    owner: OWNER,
    secret,
    expiresAt: NOW + 1e6,
    nonce: mine!.nonce,
    keyPackage: randomBytes(300),
    admit: 'owner',
  }
  const states: string[] = []
  const channel = { ...ENTERED, become: (state: string) => states.push(state) }
  const joins = new Joins(joinerIn(channel, record) as never, 'relay.test')
  const greet = (sender: string, ...parts: Uint8Array[]): void =>
    joins.greeting(channel as never, sender, Buffer.concat(parts))
  const nonces = others.map(({ nonce }) => nonce)
  greet(OWNER, ...nonces)
  greet(OWNER, fromHex('00'), mine!.nonce)
  greet(OWNER, ...nonces, mine!.nonce.subarray(0, 15))
  greet(others[0]!.agent, mine!.nonce)
  assert.deepEqual(states, [])
  greet(OWNER, ...nonces, mine!.nonce)
  assert.deepEqual(states, ['joined'])
})

test("with a token for members, the member that added the joiner greets it, and no other; with an owner's token, none does", () => {
  const [mine, adder, other] = joiners(3)
  const greetedBy = (admit: string, sender: string): string[] => {
    const secret = randomBytes(32)
    const invite = toHex(inviteKeys(secret).inviteId)
    const { nonce } = mine!
    const place = { invite, channel: CHANNEL, name: 'acme/x/y', owner: OWNER, secret, expiresAt: NOW + 1e6 }
    const record = { ...place, nonce, keyPackage: randomBytes(300), admit }
    const states: string[] = []
    const standing = { record: { addedBy: adder!.agent } }
    const channel = { ...ENTERED, standing, become: (state: string) => states.push(state) }
    const joins = new Joins(joinerIn(channel, record) as never, 'relay.test')
    joins.greeting(channel as never, sender, nonce)
    return states
  }
  assert.deepEqual(greetedBy('members', adder!.agent), ['joined'])
  assert.deepEqual(greetedBy('members', OWNER), ['joined'])
  assert.deepEqual(greetedBy('members', other!.agent), [])
  assert.deepEqual(greetedBy('owner', adder!.agent), [])
  assert.deepEqual(greetedBy('owner', OWNER), ['joined'])
})
