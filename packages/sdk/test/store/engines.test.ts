/** What both engines must do, change by change. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type AgentStore,
  type Change,
  type PoisonRecord,
  RefusedChange,
  type SenderRecord,
  type Snapshot,
  type StoredChannel,
  type ChainRecord,
  type StayRecord,
  type UseRecord,
} from '../../src/ports/index.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import {
  AGENT,
  attemptRecord,
  bytesOf,
  CHANNEL,
  channelRecord,
  code,
  epochRecord,
  IDENTITY,
  inboxRecord,
  inviteRecord,
  joinerRecord,
  leaverRecord,
  makeDirectory,
  openStore,
  OTHER,
  outboxRecord,
  pendingRecord,
  put,
} from './support.ts'

/** A store, and the way to see what a fresh start would see. */
interface Engine {
  readonly store: AgentStore
  readonly reopen: () => Promise<AgentStore>
}

const engines: Readonly<Record<string, () => Promise<Engine>>> = {
  memory: async () => {
    const store = makeMemoryStore(IDENTITY)
    return { store, reopen: () => Promise.resolve(store) }
  },
  sqlcipher: async () => {
    const directory = makeDirectory()
    const store = await openStore(directory)
    const reopen = async (): Promise<AgentStore> => {
      store.close()
      return await openStore(directory)
    }
    return { store, reopen }
  },
}

const EMPTY: Snapshot = {
  identity: IDENTITY,
  keyPackages: [],
  channels: [],
  pins: [],
  relays: new Map(),
  removed: [],
  invites: [],
  joiners: [],
  attempts: [],
  keepingDays: undefined,
}

function stored(fields: Partial<StoredChannel> = {}): StoredChannel {
  return {
    record: channelRecord(),
    welcome: undefined,
    epoch: undefined,
    pending: undefined,
    senders: [],
    leavers: [],
    chain: [],
    ownReceipt: undefined,
    stays: [],
    ownProof: undefined,
    memberProofs: [],
    outbox: [],
    answered: [],
    inbox: { messages: 0, bytes: 0, first: 0 },
    poison: { messages: 0, bytes: 0 },
    requests: { messages: 0, bytes: 0, first: 0 },
    answers: { messages: 0, bytes: 0 },
    asks: [],
    answerers: [],
    files: [],
    uploads: [],
    approvals: [],
    approvalRequests: [],
    approvalEvents: [],
    inviteList: undefined,
    uses: [],
    claims: [],
    ...fields,
  }
}

for (const [name, make] of Object.entries(engines)) {
  describe(`${name} store`, () => {
    /** Writes twice, since every change can be repeated, and compares before and after a restart. */
    async function check(writes: readonly (readonly Change[])[], channels: readonly StoredChannel[]): Promise<void> {
      const engine = await make()
      for (const changes of writes) {
        engine.store.write(changes)
        engine.store.write(changes)
      }
      assert.deepEqual(engine.store.load(), { ...EMPTY, channels })
      const reopened = await engine.reopen()
      assert.deepEqual(reopened.load(), { ...EMPTY, channels })
      reopened.close()
    }

    test('a new store has the identity and nothing else', () => check([], []))

    test('keeps KeyPackages, oldest first, until they are dropped', async () => {
      const { store, reopen } = await make()
      const record = (ref: string, createdAt: number) => ({
        ref,
        keyPackage: bytesOf(`${ref} package`, 400),
        privatePart: bytesOf(`${ref} private`, 96),
        createdAt,
        pooled: ref !== 'b',
      })
      store.write([
        { type: 'putKeyPackage', record: record('a', 30) },
        { type: 'putKeyPackage', record: record('b', 10) },
        { type: 'putKeyPackage', record: record('c', 20) },
        { type: 'putKeyPackage', record: record('c', 20) },
        { type: 'dropKeyPackage', ref: 'a' },
        { type: 'dropKeyPackage', ref: 'unknown' },
      ])
      const again = await reopen()
      assert.deepEqual(again.load().keyPackages, [record('b', 10), record('c', 20)])
      again.close()
    })

    test('replaces a channel and keeps its dependent data', async () => {
      const changed = channelRecord({
        state: 'leaving',
        position: { index: 9, hash: bytesOf('later'), slot: 4 },
        rekeyDue: true,
        fork: AGENT,
        broken: 'mls_error',
      })
      await check(
        [
          [put(), { type: 'putWelcome', id: CHANNEL, welcome: bytesOf('welcome', 3000) }],
          [{ type: 'putChannel', record: changed }],
        ],
        [stored({ record: changed, welcome: bytesOf('welcome', 3000) })],
      )
    })

    test('forgets a used Welcome', () =>
      check(
        [
          [put(), { type: 'putWelcome', id: CHANNEL, welcome: bytesOf('welcome') }],
          [{ type: 'putWelcome', id: CHANNEL, welcome: undefined }],
        ],
        [stored()],
      ))

    test('adopts an epoch: the previous group, its rows and the pending commit are deleted', () =>
      check(
        [
          [
            put(),
            { type: 'putEpoch', id: CHANNEL, epoch: epochRecord('old', 5) },
            { type: 'putPending', id: CHANNEL, pending: pendingRecord('commit') },
          ],
          [{ type: 'putEpoch', id: CHANNEL, epoch: epochRecord('new', 2) }],
        ],
        [stored({ epoch: epochRecord('new', 2) })],
      ))

    test('ends an epoch without a next one', () =>
      check(
        [
          [put(), { type: 'putEpoch', id: CHANNEL, epoch: epochRecord('old') }],
          [{ type: 'putEpoch', id: CHANNEL, epoch: undefined }],
        ],
        [stored()],
      ))

    test('replaces the group and single rows of an epoch', async () => {
      const epoch = epochRecord('epoch', 3)
      const rows = new Map([
        ...epoch.rows,
        [1, bytesOf('advanced', 40)] as const,
        [12, bytesOf('new leaf', 90)] as const,
      ])
      await check(
        [
          [put(), { type: 'putEpoch', id: CHANNEL, epoch }],
          [
            { type: 'putGroup', id: CHANNEL, group: bytesOf('used', 8000) },
            { type: 'putRow', id: CHANNEL, leaf: 12, row: bytesOf('new leaf', 90) },
            { type: 'putRow', id: CHANNEL, leaf: 1, row: bytesOf('advanced', 40) },
          ],
        ],
        [stored({ epoch: { group: bytesOf('used', 8000), rows } })],
      )
    })

    test('holds one pending commit next to the epoch, until it is dropped', async () => {
      const epoch = epochRecord('epoch')
      const start: Change[] = [put(), { type: 'putEpoch', id: CHANNEL, epoch }]
      const pend = (label: string): Change => ({ type: 'putPending', id: CHANNEL, pending: pendingRecord(label) })
      await check([start, [pend('first')], [pend('second')]], [stored({ epoch, pending: pendingRecord('second') })])
      await check(
        [start, [pend('first')], [{ type: 'putPending', id: CHANNEL, pending: undefined }]],
        [stored({ epoch })],
      )
    })

    test('keeps the position of each sender', async () => {
      const sender = (agent: string, counter: number): SenderRecord => ({
        agent,
        counter,
        ownHash: bytesOf(`${agent} ${counter}`),
        accepted: counter > 1,
      })
      const [a, b, c] = ['0a', '0b', '0c'].map((pair) => pair.repeat(32)) as [string, string, string]
      await check(
        [
          [
            put(),
            { type: 'putSender', id: CHANNEL, sender: sender(c, 1) },
            { type: 'putSender', id: CHANNEL, sender: sender(a, 1) },
            { type: 'putSender', id: CHANNEL, sender: sender(b, 1) },
          ],
          [
            { type: 'putSender', id: CHANNEL, sender: sender(a, 2) },
            { type: 'dropSender', id: CHANNEL, agent: b },
          ],
        ],
        [stored({ senders: [sender(a, 2), sender(c, 1)] })],
      )
    })

    test('keeps the last hashes of the chain, the stays of members, and what receipts say', async () => {
      const chain = (first: number): ChainRecord => ({ first, hashes: bytesOf(`hashes ${first}`), own: bytesOf('own') })
      const member: StayRecord = {
        agent: AGENT,
        addedAt: 0,
        ending: undefined,
        endedAt: 0,
        vouched: true,
        receipt: undefined,
      }
      const receipt = { mode: 'settled', since: 1, index: 9, aside: 3, settled: 8, heardAt: 7 } as const
      const ended: StayRecord = { ...member, addedAt: 5, ending: 'left', endedAt: 6, receipt }
      await check(
        [
          [
            put(),
            { type: 'putChain', id: CHANNEL, chain: chain(2) },
            { type: 'putChain', id: CHANNEL, chain: chain(1) },
          ],
          [
            { type: 'dropChain', id: CHANNEL, first: 1 },
            { type: 'putChain', id: CHANNEL, chain: chain(3) },
            { type: 'putOwnReceipt', id: CHANNEL, own: { since: 1, aside: 0 } },
            { type: 'putOwnReceipt', id: CHANNEL, own: { since: 4, aside: 2 } },
          ],
          [
            { type: 'putStay', id: CHANNEL, stay: member },
            { type: 'putStay', id: CHANNEL, stay: ended },
            { type: 'putStay', id: CHANNEL, stay: { ...ended, addedAt: 6 } },
            { type: 'dropStay', id: CHANNEL, agent: AGENT, addedAt: 6 },
          ],
        ],
        [stored({ chain: [chain(2), chain(3)], ownReceipt: { since: 4, aside: 2 }, stays: [member, ended] })],
      )
    })

    test('keeps the members that have left, by agent, until they are removed', async () => {
      const [a, b, c] = ['0a', '0b', '0c'].map((pair) => pair.repeat(32)) as [string, string, string]
      const later = leaverRecord(a, { slot: 9, signature: bytesOf('again', 64) })
      await check(
        [
          [
            put(),
            ...[c, a, b].map((agent): Change => ({ type: 'putLeaver', id: CHANNEL, leaver: leaverRecord(agent) })),
          ],
          [
            { type: 'putLeaver', id: CHANNEL, leaver: later },
            { type: 'dropLeaver', id: CHANNEL, agent: b },
          ],
        ],
        [stored({ leavers: [later, leaverRecord(c)] })],
      )
    })

    test('returns answered messages by counter, whatever their ids', async () => {
      const numbers = [1, 2, 3, 4, 5]
      const answers = [4, 1, 5, 2, 3].map((n): Change => ({
        type: 'answerOutbox',
        id: CHANNEL,
        messageId: outboxRecord(n).messageId,
        bodyHash: bytesOf(`body ${n}`),
      }))
      await check(
        [
          [put(), ...numbers.map((n): Change => ({ type: 'putOutbox', id: CHANNEL, record: outboxRecord(n) }))],
          answers,
        ],
        [
          stored({
            answered: numbers.map((n) => ({
              messageId: outboxRecord(n).messageId,
              counter: n,
              bodyHash: bytesOf(`body ${n}`),
            })),
          }),
        ],
      )
    })

    test('returns the outbox by counter, with messages that were encrypted again', async () => {
      const anew = outboxRecord(2, { slot: 9, ciphertext: bytesOf('anew', 2600), messageKey: bytesOf('anew key', 44) })
      await check(
        [
          [put(), ...[3, 1, 2].map((n): Change => ({ type: 'putOutbox', id: CHANNEL, record: outboxRecord(n) }))],
          [{ type: 'putOutbox', id: CHANNEL, record: anew }],
        ],
        [stored({ outbox: [outboxRecord(1), anew, outboxRecord(3)] })],
      )
    })

    test('reduces an answered message to the hash of its body, and then deletes it', async () => {
      const ids = [1, 2, 3].map((n) => outboxRecord(n).messageId)
      const answer = (n: number): Change => ({
        type: 'answerOutbox',
        id: CHANNEL,
        messageId: ids[n - 1]!,
        bodyHash: bytesOf(`body ${n}`),
      })
      const drop = (n: number): Change => ({ type: 'dropOutbox', id: CHANNEL, messageId: ids[n - 1]! })
      await check(
        [
          [put(), ...[1, 2, 3].map((n): Change => ({ type: 'putOutbox', id: CHANNEL, record: outboxRecord(n) }))],
          [answer(1), answer(2)],
          // The own entry can pass before the answer comes, and then the answer finds nothing.
          [drop(1), drop(3)],
          [answer(3)],
        ],
        [stored({ answered: [{ messageId: ids[1]!, counter: 2, bodyHash: bytesOf('body 2') }] })],
      )
    })

    test('requests, open asks and unread answers are found again', async () => {
      const { store, reopen } = await make()
      const { messageId } = outboxRecord(1)
      const agent = '0a'.repeat(32)
      const ask = { messageId, to: agent, deadline: 9 }
      const answerer = { messageId, agent, answers: 2, ended: true }
      store.write([
        { type: 'putChannel', record: channelRecord() },
        { type: 'putRequest', id: CHANNEL, record: inboxRecord(4) },
        { type: 'putAsk', id: CHANNEL, record: ask },
        { type: 'putAnswerer', id: CHANNEL, record: answerer },
        ...[6, 5].map((n): Change => ({ type: 'putAnswer', id: CHANNEL, record: inboxRecord(n) })),
      ])
      const again = await reopen()
      assert.deepEqual(again.load().channels[0]?.asks, [ask])
      assert.deepEqual(again.load().channels[0]?.answerers, [answerer])
      assert.deepEqual(again.requests(CHANNEL, 0, 9), [inboxRecord(4)])
      assert.deepEqual(again.answers(CHANNEL), [inboxRecord(5), inboxRecord(6)])
      again.write([
        { type: 'dropAsk', id: CHANNEL, messageId },
        { type: 'dropRequest', id: CHANNEL, place: { index: 4, part: 0 } },
        { type: 'dropAnswer', id: CHANNEL, place: { index: 5, part: 0 } },
      ])
      assert.deepEqual(again.load().channels[0]?.answerers, [])
      assert.deepEqual(again.load().channels[0]?.answers, { messages: 1, bytes: 1330 })
      assert.deepEqual(again.requests(CHANNEL, 0, 9), [])
      again.write([{ type: 'dropChannel', id: CHANNEL }])
      assert.deepEqual(again.answers(CHANNEL), [])
      again.close()
    })

    test('moves a message out of the inbox and keeps it until it is dropped, with its body', async () => {
      const { store, reopen } = await make()
      const poison = (n: number): PoisonRecord => ({ ...inboxRecord(n, { attempts: 3 }), reason: 'no', putAsideAt: 5 })
      store.write([put(), ...[5, 6, 7].map((n): Change => ({ type: 'putInbox', id: CHANNEL, record: inboxRecord(n) }))])
      store.write([7, 5].map((n): Change => ({ type: 'putPoison', id: CHANNEL, record: poison(n) })))
      const again = await reopen()
      assert.deepEqual(again.inbox(CHANNEL, 0, 10), [inboxRecord(6)])
      assert.deepEqual(again.poison(CHANNEL), [poison(5), poison(7)])
      assert.deepEqual(again.poison(OTHER), [])
      assert.deepEqual(again.load().channels[0]?.poison, { messages: 2, bytes: 2 * 1330 })
      again.write([
        { type: 'dropPoison', id: CHANNEL, place: { index: 5, part: 0 } },
        { type: 'putInbox', id: CHANNEL, record: inboxRecord(5) },
      ])
      assert.deepEqual(again.poison(CHANNEL), [poison(7)])
      again.write([{ type: 'dropChannel', id: CHANNEL }])
      assert.deepEqual(again.poison(CHANNEL), [])
      again.close()
    })

    test('remembers removals in their order', async () => {
      const { store, reopen } = await make()
      const records = [3, 1, 2].map((at) => ({ name: `acme/removed/${at}`, at }))
      store.write(records.map((record): Change => ({ type: 'putRemoved', record })))
      store.write([{ type: 'dropRemoved', name: 'acme/removed/2' }])
      const again = await reopen()
      assert.deepEqual(again.load().removed, [records[1], records[0]])
      again.close()
    })

    test('returns the inbox in order, page by page, and drops settled messages', async () => {
      const { store, reopen } = await make()
      const indexes = [5, 9, 6, 12, 7]
      store.write([put(), ...indexes.map((n): Change => ({ type: 'putInbox', id: CHANNEL, record: inboxRecord(n) }))])
      assert.deepEqual(store.inbox(CHANNEL, 5, 2), [inboxRecord(6), inboxRecord(7)])
      assert.deepEqual(store.inbox(CHANNEL, 12, 2), [])
      assert.deepEqual(store.inbox(OTHER, 0, 2), [])
      const longer = inboxRecord(9, { ciphertext: bytesOf('longer', 5000) })
      store.write([
        { type: 'dropInbox', id: CHANNEL, place: { index: 6, part: 0 } },
        { type: 'dropInbox', id: CHANNEL, place: { index: 8, part: 0 } },
        { type: 'putInbox', id: CHANNEL, record: longer },
      ])
      const again = await reopen()
      assert.deepEqual(again.inbox(CHANNEL, 0, 10), [inboxRecord(5), inboxRecord(7), longer, inboxRecord(12)])
      assert.deepEqual(again.load().channels[0]?.inbox, { messages: 4, bytes: 1330 + 1330 + 5000 + 1330, first: 5 })
      again.close()
    })

    test('reused ciphertext numbers do not mix up messages', async () => {
      const { store, reopen } = await make()
      store.write([put()])
      for (let n = 1; n <= 40; n++) {
        store.write([
          { type: 'putOutbox', id: CHANNEL, record: outboxRecord(n) },
          { type: 'putInbox', id: CHANNEL, record: inboxRecord(n) },
          { type: 'dropOutbox', id: CHANNEL, messageId: outboxRecord(n - (n % 3)).messageId },
          { type: 'dropInbox', id: CHANNEL, place: { index: n - 4, part: 0 } },
        ])
        // A write that fails gives back the numbers that it took, and does not free those of what it would have dropped.
        const failing: Change[] = [
          { type: 'dropOutbox', id: CHANNEL, messageId: outboxRecord(1).messageId },
          { type: 'putInbox', id: CHANNEL, record: inboxRecord(1000 + n) },
          { type: 'dropInbox', id: CHANNEL, place: { index: n, part: 0 } },
          { type: 'putRow', id: OTHER, leaf: 0, row: bytesOf('row') },
        ]
        assert.throws(() => store.write(failing))
        if (n % 10 === 0) store.checkpoint()
      }
      const again = await reopen()
      const kept = Array.from({ length: 40 }, (_, at) => at + 1).filter((n) => n % 3 !== 0)
      assert.deepEqual(
        again.load().channels[0]?.outbox,
        kept.map((n) => outboxRecord(n)),
      )
      assert.deepEqual(
        again.inbox(CHANNEL, 0, 100),
        [37, 38, 39, 40].map((n) => inboxRecord(n)),
      )
      again.close()
    })

    test('drops a channel with all its data, and no data of another', async () => {
      const all = (id: string): Change[] => [
        put({ id }),
        { type: 'putWelcome', id, welcome: bytesOf('welcome') },
        { type: 'putEpoch', id, epoch: epochRecord('epoch') },
        { type: 'putPending', id, pending: pendingRecord('commit') },
        { type: 'putSender', id, sender: { agent: AGENT, counter: 1, ownHash: bytesOf('own'), accepted: false } },
        { type: 'putLeaver', id, leaver: leaverRecord(AGENT) },
        { type: 'putOutbox', id, record: outboxRecord(1) },
        { type: 'putOutbox', id, record: outboxRecord(2) },
        { type: 'answerOutbox', id, messageId: outboxRecord(2).messageId, bodyHash: bytesOf('body') },
        { type: 'putInbox', id, record: inboxRecord(8) },
      ]
      const full = stored({
        record: channelRecord({ id: OTHER }),
        welcome: bytesOf('welcome'),
        epoch: epochRecord('epoch'),
        pending: pendingRecord('commit'),
        senders: [{ agent: AGENT, counter: 1, ownHash: bytesOf('own'), accepted: false }],
        leavers: [leaverRecord(AGENT)],
        outbox: [outboxRecord(1)],
        answered: [{ messageId: outboxRecord(2).messageId, counter: 2, bodyHash: bytesOf('body') }],
        inbox: { messages: 1, bytes: 1330, first: 8 },
      })
      await check([all(CHANNEL), all(OTHER), [{ type: 'dropChannel', id: CHANNEL }]], [full])
      // Made again under the same id it starts empty.
      await check([all(CHANNEL), [{ type: 'dropChannel', id: CHANNEL }, put()]], [stored()])
    })

    test('dropping from a deleted channel does nothing', () =>
      check(
        [
          [
            { type: 'putWelcome', id: CHANNEL, welcome: undefined },
            { type: 'putEpoch', id: CHANNEL, epoch: undefined },
            { type: 'putPending', id: CHANNEL, pending: undefined },
            { type: 'dropSender', id: CHANNEL, agent: AGENT },
            { type: 'dropLeaver', id: CHANNEL, agent: AGENT },
            { type: 'answerOutbox', id: CHANNEL, messageId: bytesOf('id', 16), bodyHash: bytesOf('body') },
            { type: 'dropOutbox', id: CHANNEL, messageId: bytesOf('id', 16) },
            { type: 'dropInbox', id: CHANNEL, place: { index: 9, part: 0 } },
            { type: 'dropChannel', id: CHANNEL },
          ],
        ],
        [],
      ))

    test('keeps pins and relays, the latest value of each', async () => {
      const { store, reopen } = await make()
      const [owner, key, newKey] = ['01', '02', '03'].map((pair) => pair.repeat(32)) as [string, string, string]
      const pin = (identity: string, agent: string): Change => ({
        type: 'putPin',
        owner,
        identity: bytesOf(identity),
        agent,
      })
      store.write([pin('a', key), pin('b', key), pin('a', newKey)])
      store.write([
        { type: 'putRelay', relayName: 'one', relayId: bytesOf('one'), grpcPort: 0 },
        { type: 'putRelay', relayName: 'one', relayId: bytesOf('two'), grpcPort: 5443 },
      ])
      const again = await reopen()
      const { pins, relays } = again.load()
      assert.deepEqual(
        new Map(pins.map(({ identity, agent }) => [Buffer.from(identity).toString('hex'), agent])),
        new Map([
          [Buffer.from(bytesOf('a')).toString('hex'), newKey],
          [Buffer.from(bytesOf('b')).toString('hex'), key],
        ]),
      )
      assert.deepEqual(relays, new Map([['one', { relayId: bytesOf('two'), grpcPort: 5443 }]]))
      again.close()
    })

    test('keeps the list of invites that members may use, its uses, and the claims of an epoch', async () => {
      const list = { list: bytesOf('list'), counts: bytesOf('counts'), due: true }
      const use = (agent: string, slot: number): UseRecord => ({
        agent,
        slot,
        invite: 'i1',
        leafKey: bytesOf('leaf'),
        by: AGENT,
        since: 5,
        state: 'heard',
        beyond: false,
      })
      const claim = { by: AGENT, claims: bytesOf('claims') }
      await check(
        [
          [
            put(),
            { type: 'putInviteList', id: CHANNEL, list: { ...list, due: false } },
            { type: 'putInviteList', id: CHANNEL, list },
            { type: 'putUse', id: CHANNEL, use: { ...use(AGENT, 3), beyond: true } },
            { type: 'putUse', id: CHANNEL, use: use(AGENT, 4) },
            { type: 'putUse', id: CHANNEL, use: use(AGENT, 3) },
            { type: 'putUse', id: CHANNEL, use: use('0b'.repeat(32), 3) },
            { type: 'dropUse', id: CHANNEL, agent: AGENT, slot: 4 },
            { type: 'putClaim', id: CHANNEL, claim },
            { type: 'dropClaims', id: CHANNEL },
            { type: 'putClaim', id: CHANNEL, claim: { ...claim, claims: bytesOf('before') } },
            { type: 'putClaim', id: CHANNEL, claim },
          ],
        ],
        [
          stored({
            inviteList: list,
            uses: [use(AGENT, 3), use('0b'.repeat(32), 3)].sort((a, b) => (a.agent < b.agent ? -1 : 1)),
            claims: [claim],
          }),
        ],
      )
    })

    test('keeps invites with the agents that joined with them, and pending joins', async () => {
      const { store, reopen } = await make()
      const [a, b, c] = ['0a', '0b', '0c'].map((pair) => pair.repeat(32)) as [string, string, string]
      const used = inviteRecord('i1', { uses: 2, returned: 1, revoked: true })
      const here = joinerRecord(b, 'i1', { state: 'here', since: 5 })
      store.write([
        put(),
        ...['i2', 'i1', 'i3'].map((id): Change => ({ type: 'putInvite', record: inviteRecord(id) })),
        { type: 'putJoiner', record: joinerRecord(b, 'i1') },
        { type: 'putJoiner', record: joinerRecord(a, 'i2') },
        { type: 'putJoiner', record: joinerRecord(c, 'i3') },
        { type: 'putJoiner', record: joinerRecord(AGENT, 'i3') },
        { type: 'putAttempt', record: attemptRecord('t2') },
        { type: 'putAttempt', record: attemptRecord('t1') },
      ])
      store.write([
        { type: 'putInvite', record: used },
        { type: 'putJoiner', record: here },
        { type: 'dropInvite', id: 'i2' },
        { type: 'dropInvite', id: 'unknown' },
        { type: 'dropJoiner', id: CHANNEL, agent: AGENT },
        { type: 'dropAttempt', invite: 't2' },
        { type: 'dropAttempt', invite: 'unknown' },
      ])
      const again = await reopen()
      const { invites, joiners, attempts } = again.load()
      assert.deepEqual(invites, [used, inviteRecord('i3')])
      assert.deepEqual(joiners, [here, joinerRecord(c, 'i3')])
      assert.deepEqual(attempts, [attemptRecord('t1')])
      assert.throws(() => again.write([{ type: 'putJoiner', record: joinerRecord(a, 'i2') }]), code('internal_error'))
      again.write([{ type: 'dropChannel', id: CHANNEL }])
      // A join by a token is not of a channel that is held.
      assert.deepEqual(again.load(), { ...EMPTY, attempts: [attemptRecord('t1')] })
      again.close()
    })

    test('a failing change undoes the whole write', async () => {
      const { store, reopen } = await make()
      store.write([put(), { type: 'putEpoch', id: CHANNEL, epoch: epochRecord('epoch') }])
      const before = store.load()
      const impossible: Change[] = [
        { type: 'putRow', id: OTHER, leaf: 0, row: bytesOf('row') },
        { type: 'putGroup', id: OTHER, group: bytesOf('group') },
        { type: 'putWelcome', id: OTHER, welcome: bytesOf('welcome') },
        { type: 'putEpoch', id: OTHER, epoch: epochRecord('epoch') },
        { type: 'putPending', id: OTHER, pending: pendingRecord('commit') },
        {
          type: 'putSender',
          id: OTHER,
          sender: { agent: AGENT, counter: 1, ownHash: bytesOf('own'), accepted: false },
        },
        { type: 'putOutbox', id: OTHER, record: outboxRecord(1) },
        { type: 'putInbox', id: OTHER, record: inboxRecord(1) },
        { type: 'putLeaver', id: OTHER, leaver: leaverRecord(AGENT) },
        { type: 'putInvite', record: inviteRecord('i1', { channel: OTHER }) },
        { type: 'putJoiner', record: joinerRecord(AGENT, 'i1') },
        // What could not be read again, or not exactly.
        put({ position: { index: 2 ** 53, hash: bytesOf('hash'), slot: 1 } }),
        put({ rekeyedAt: 1.5 }),
        put({ leafKeys: [bytesOf('key'), bytesOf('short', 17)] }),
        { type: 'putInbox', id: CHANNEL, record: inboxRecord(1, { epoch: 2 ** 60 }) },
        { type: 'putLeaver', id: CHANNEL, leaver: leaverRecord(AGENT, { leafKeys: [bytesOf('short', 17)] }) },
      ]
      for (const last of impossible) {
        const changes: Change[] = [
          put({ counter: 99 }),
          { type: 'putRow', id: CHANNEL, leaf: 0, row: bytesOf('advanced') },
          { type: 'putOutbox', id: CHANNEL, record: outboxRecord(1) },
          { type: 'putEpoch', id: CHANNEL, epoch: undefined },
          last,
        ]
        const isNamed = (error: unknown): boolean => error instanceof RefusedChange && error.change === last
        assert.throws(() => store.write(changes), isNamed, last.type)
        assert.deepEqual(store.load(), before, last.type)
      }
      const again = await reopen()
      assert.deepEqual(again.load(), before)
      again.close()
    })

    test('is not affected by what the caller does with its buffers', async () => {
      const { store } = await make()
      const row = bytesOf('row', 90)
      const epoch = epochRecord('epoch')
      store.write([put(), { type: 'putEpoch', id: CHANNEL, epoch }, { type: 'putRow', id: CHANNEL, leaf: 0, row }])
      row.fill(0)
      store.load().identity.secretKey.fill(0)
      store.load().channels[0]?.epoch?.rows.get(0)?.fill(0)
      assert.deepEqual(store.load().channels[0]?.epoch?.rows.get(0), bytesOf('row', 90))
      assert.deepEqual(store.load().identity, IDENTITY)
      store.close()
    })

    test('refuses everything once it is closed, and can be closed twice', async () => {
      const { store } = await make()
      store.close()
      store.close()
      assert.throws(() => store.load(), code('closed'))
      assert.throws(() => store.inbox(CHANNEL, 0, 1), code('closed'))
      assert.throws(() => store.write([put()]), code('closed'))
      assert.throws(() => store.checkpoint(), code('closed'))
    })
  })
}
