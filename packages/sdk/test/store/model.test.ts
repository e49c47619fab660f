/** Random writes to both engines: the database always answers as the model in memory does, also after a restart. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomNumbers, seedOf } from '@static/testkit/random'
import type { AgentStore, Change } from '../../src/ports.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import {
  attemptRecord,
  bytesOf,
  CHANNEL,
  channelRecord,
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
} from './support.ts'

const SEED = seedOf(20_261_103)
const WRITES = 400

/** One change of any kind; the labels are few, so that most meet rows of others. */
function anyChange(below: (limit: number) => number): Change {
  const id = below(3) === 0 ? OTHER : CHANNEL
  const few = 1 + below(6)
  const agent = ['0a', '0b', '0c'][below(3)]!.repeat(32)
  const bytes = bytesOf(`bytes ${below(1000)}`, 20 + below(3000))
  const { messageId } = outboxRecord(few)
  const invite = `invite ${few} to ${id}`
  const changes: (() => Change)[] = [
    () => ({
      type: 'putKeyPackage',
      record: { ref: agent, keyPackage: bytes, privatePart: bytesOf('private'), createdAt: few, pooled: few > 3 },
    }),
    () => ({ type: 'dropKeyPackage', ref: agent }),
    () => ({ type: 'putChannel', record: channelRecord({ id, counter: few }) }),
    () => ({ type: 'putChannel', record: channelRecord({ id, state: 'ended', fork: agent }) }),
    () => (below(8) === 0 ? { type: 'dropChannel', id } : { type: 'putWelcome', id, welcome: undefined }),
    () => ({ type: 'putWelcome', id, welcome: bytes }),
    () => ({ type: 'putEpoch', id, epoch: few === 1 ? undefined : epochRecord(`epoch ${few}`, few) }),
    () => ({ type: 'putGroup', id, group: bytes }),
    () => ({ type: 'putRow', id, leaf: few, row: bytes }),
    () => ({ type: 'putPending', id, pending: few === 1 ? undefined : pendingRecord(`pending ${few}`) }),
    () => ({
      type: 'putSender',
      id,
      sender: { agent, counter: few, ownHash: bytesOf(`own ${few}`), accepted: few === 1 },
    }),
    () => ({ type: 'dropSender', id, agent }),
    () => ({ type: 'putLeaver', id, leaver: leaverRecord(agent, { slot: few }) }),
    () => ({ type: 'dropLeaver', id, agent }),
    () => ({ type: 'putOutbox', id, record: outboxRecord(few, { ciphertext: bytes }) }),
    () => ({ type: 'answerOutbox', id, messageId, bodyHash: bytesOf(`body ${few}`) }),
    () => ({ type: 'dropOutbox', id, messageId }),
    () => ({ type: 'putInbox', id, record: inboxRecord(few, { ciphertext: bytes, identity: bytesOf(agent, few) }) }),
    () => ({ type: 'dropInbox', id, index: few }),
    () => ({ type: 'putInvite', record: inviteRecord(invite, { channel: id, uses: below(3) }) }),
    () => ({ type: 'dropInvite', id: invite }),
    () => ({ type: 'putJoiner', record: joinerRecord(agent, invite, { channel: id, since: below(9) }) }),
    () => ({ type: 'dropJoiner', id, agent }),
    () => ({ type: 'putAttempt', record: attemptRecord(invite, { keyPackage: bytes }) }),
    () => ({ type: 'dropAttempt', invite }),
    () => ({ type: 'putPin', owner: agent, identity: bytesOf(`identity ${few}`), agent }),
    () => ({
      type: 'putRelay',
      relayName: `relay-${few}`,
      relayId: bytesOf(`relay ${below(9)}`),
      grpcPort: below(9),
    }),
  ]
  return changes[below(changes.length)]!()
}

/** Whether the write was taken. */
function tryWrite(store: AgentStore, changes: readonly Change[]): boolean {
  try {
    store.write(changes)
    return true
  } catch {
    return false
  }
}

test(`${WRITES} random writes, seed ${SEED}`, async (t) => {
  t.diagnostic(`STATIC_SEED=${SEED}`)
  const random = randomNumbers(SEED)
  const below = (limit: number): number => Math.floor(random() * limit)
  const directory = makeDirectory()
  const model = makeMemoryStore(IDENTITY)
  let store = await openStore(directory)
  let taken = 0
  for (let n = 0; n < WRITES; n++) {
    const changes = Array.from({ length: 1 + below(4) }, () => anyChange(below))
    const words = `write ${n}: ${changes.map(({ type }) => type).join(', ')}`
    const expected = tryWrite(model, changes)
    assert.equal(tryWrite(store, changes), expected, words)
    if (expected) taken++
    if (below(50) === 0) store.checkpoint()
    if (below(100) === 0) {
      store.close()
      store = await openStore(directory)
    }
    assert.deepEqual(store.load(), model.load(), words)
    for (const id of [CHANNEL, OTHER]) assert.deepEqual(store.inbox(id, 2, 3), model.inbox(id, 2, 3), words)
  }
  assert.ok(taken > WRITES / 4 && taken < WRITES, `${taken} of ${WRITES} writes were taken`)
  store.close()
})
