/** Carries out the steps of a transaction, each by statements that are prepared once. */
import { StaticError } from '@static/protocol'
import type { Change, ChannelId, ChannelRecord, EpochRecord, InboxRecord, OutboxRecord } from '../ports.ts'
import type { Bodies } from './bodies.ts'
import type { Database, Statement } from './sqlite.ts'

/** Makes the function that carries out one step. What it throws undoes the whole transaction. */
export function prepareChanges(database: Database, bodies: Bodies): (change: Change) => void {
  const prepare = (sql: string): Statement => database.prepare(sql)
  const number = (sql: string): Statement<number> => database.prepare<number>(sql).pluck()

  const putKeyPackage = prepare('REPLACE INTO key_package VALUES (?, ?, ?, ?, ?)')
  const dropKeyPackage = prepare('DELETE FROM key_package WHERE ref = ?')
  const putChannel = prepare(`
    INSERT INTO channel VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET
      name = excluded.name, owner = excluded.owner, state = excluded.state,
      position_index = excluded.position_index, position_hash = excluded.position_hash,
      position_slot = excluded.position_slot, counter = excluded.counter, own_hash = excluded.own_hash,
      rekey_due = excluded.rekey_due, rekeyed_at = excluded.rekeyed_at,
      sent_since_rekey = excluded.sent_since_rekey, fork = excluded.fork, broken = excluded.broken
  `)
  const bodiesOfChannel = number(`
    SELECT body FROM outbox WHERE channel = ? AND body_hash IS NULL UNION ALL SELECT body FROM inbox WHERE channel = ?
  `)
  const dropChannel = prepare('DELETE FROM channel WHERE id = ?')
  const putWelcome = prepare('REPLACE INTO welcome VALUES (?, ?)')
  const dropWelcome = prepare('DELETE FROM welcome WHERE channel = ?')
  const dropEpochs = prepare('DELETE FROM epoch WHERE channel = ?')
  const dropPending = prepare('DELETE FROM epoch WHERE channel = ? AND pending = 1')
  const insertEpoch = prepare('INSERT INTO epoch VALUES (?, ?, ?)')
  const putGroup = prepare('UPDATE epoch SET mls_group = ? WHERE channel = ? AND pending = 0')
  const putRow = prepare('INSERT INTO ratchet VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET ratchet = excluded.ratchet')
  const insertPending = prepare('INSERT INTO pending_commit VALUES (?, 1, ?, ?, ?, ?, ?)')
  const putSender = prepare('REPLACE INTO sender VALUES (?, ?, ?, ?, ?)')
  const dropSender = prepare('DELETE FROM sender WHERE channel = ? AND agent = ?')
  const putOutbox = number(`
    INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, NULL)
    ON CONFLICT DO UPDATE SET
      counter = excluded.counter, control = excluded.control, slot = excluded.slot,
      message_key = excluded.message_key, body = iif(body_hash IS NULL, body, excluded.body), body_hash = NULL
    RETURNING body
  `)
  const answerOutbox = number(`
    UPDATE outbox SET message_key = x'', body_hash = ? WHERE channel = ? AND message_id = ? AND body_hash IS NULL
    RETURNING body
  `)
  const dropOutbox = number(`
    DELETE FROM outbox WHERE channel = ? AND message_id = ? RETURNING iif(body_hash IS NULL, body, NULL)
  `)
  const putInbox = number(`
    INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET
      message_id = excluded.message_id, sender = excluded.sender, identity = excluded.identity, epoch = excluded.epoch,
      received_at = excluded.received_at, message_key = excluded.message_key, bytes = excluded.bytes
    RETURNING body
  `)
  const dropInbox = number('DELETE FROM inbox WHERE channel = ? AND log_index = ? RETURNING body')
  const putLeaver = prepare('REPLACE INTO leaver VALUES (?, ?, ?, ?, ?)')
  const dropLeaver = prepare('DELETE FROM leaver WHERE channel = ? AND agent = ?')
  const putInvite = prepare(`
    INSERT INTO invite VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET uses = excluded.uses, returned = excluded.returned, revoked = excluded.revoked
  `)
  const dropInvite = prepare('DELETE FROM invite WHERE id = ?')
  const putJoiner = prepare('REPLACE INTO joiner VALUES (?, ?, ?, ?, ?, ?, ?)')
  const putAttempt = prepare('REPLACE INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
  const dropAttempt = prepare('DELETE FROM attempt WHERE invite = ?')
  const putPin = prepare('REPLACE INTO pin VALUES (?, ?, ?)')
  const putRelay = prepare('REPLACE INTO relay VALUES (?, ?)')

  function storeChannel(record: ChannelRecord): void {
    putChannel.run(
      record.id,
      record.name,
      record.owner,
      record.state,
      record.position.index,
      record.position.hash,
      record.position.slot,
      record.counter,
      record.ownHash,
      Number(record.rekeyDue),
      record.rekeyedAt,
      record.sentSinceRekey,
      record.fork ?? null,
      record.broken ?? null,
    )
  }

  function storeEpoch(id: ChannelId, pending: number, epoch: EpochRecord): void {
    insertEpoch.run(id, pending, epoch.group)
    for (const [leaf, row] of epoch.rows) putRow.run(id, pending, leaf, row)
  }

  /** A message that is written again keeps the number of its ciphertext. */
  function storeBody(taken: number, used: number | undefined, ciphertext: Uint8Array): void {
    bodies.put(used ?? taken, ciphertext)
    if (used !== taken) bodies.release(taken)
  }

  function release(body: number | null | undefined): void {
    if (typeof body === 'number') bodies.release(body)
  }

  function storeOutbox(id: ChannelId, record: OutboxRecord): void {
    const taken = bodies.take()
    const { messageId, counter, control, slot, messageKey, ciphertext } = record
    storeBody(taken, putOutbox.get(id, messageId, counter, Number(control), slot, messageKey, taken), ciphertext)
  }

  function storeInbox(id: ChannelId, record: InboxRecord): void {
    const taken = bodies.take()
    const { index, messageId, sender, identity, epoch, receivedAt, messageKey, ciphertext } = record
    const size = ciphertext.length
    const used = putInbox.get(id, index, messageId, sender, identity, epoch, receivedAt, messageKey, taken, size)
    storeBody(taken, used, ciphertext)
  }

  return (change) => {
    switch (change.type) {
      case 'putKeyPackage': {
        const { ref, keyPackage, privatePart, createdAt, pooled } = change.record
        putKeyPackage.run(ref, keyPackage, privatePart, createdAt, Number(pooled))
        return
      }
      case 'dropKeyPackage':
        dropKeyPackage.run(change.ref)
        return
      case 'putChannel':
        storeChannel(change.record)
        return
      case 'dropChannel':
        for (const body of bodiesOfChannel.all(change.id, change.id)) bodies.release(body)
        dropChannel.run(change.id)
        return
      case 'putWelcome':
        if (change.welcome === undefined) dropWelcome.run(change.id)
        else putWelcome.run(change.id, change.welcome)
        return
      case 'putEpoch':
        dropEpochs.run(change.id)
        if (change.epoch !== undefined) storeEpoch(change.id, 0, change.epoch)
        return
      case 'putGroup':
        if (putGroup.run(change.group, change.id).changes === 0) {
          throw new StaticError('internal_error', `Channel ${change.id} has no group that could be replaced.`)
        }
        return
      case 'putRow':
        putRow.run(change.id, 0, change.leaf, change.row)
        return
      case 'putPending': {
        dropPending.run(change.id)
        if (change.pending === undefined) return
        const { messageId, slot, request, bodyHash, purpose, next } = change.pending
        storeEpoch(change.id, 1, next)
        insertPending.run(change.id, messageId, slot, request, bodyHash, purpose)
        return
      }
      case 'putSender': {
        const { agent, counter, ownHash, accepted } = change.sender
        putSender.run(change.id, agent, counter, ownHash, Number(accepted))
        return
      }
      case 'dropSender':
        dropSender.run(change.id, change.agent)
        return
      case 'putOutbox':
        storeOutbox(change.id, change.record)
        return
      case 'answerOutbox':
        release(answerOutbox.get(change.bodyHash, change.id, change.messageId))
        return
      case 'dropOutbox':
        release(dropOutbox.get(change.id, change.messageId))
        return
      case 'putInbox':
        storeInbox(change.id, change.record)
        return
      case 'dropInbox':
        release(dropInbox.get(change.id, change.index))
        return
      case 'putLeaver': {
        const { agent, publicKey, slot, signature } = change.leaver
        putLeaver.run(change.id, agent, publicKey, slot, signature)
        return
      }
      case 'dropLeaver':
        dropLeaver.run(change.id, change.agent)
        return
      case 'putInvite': {
        const { id, channel, secret, expiresAt, maxUses, uses, returned, revoked } = change.record
        putInvite.run(id, channel, secret, expiresAt, maxUses, uses, returned, Number(revoked))
        return
      }
      case 'dropInvite':
        dropInvite.run(change.id)
        return
      case 'putJoiner': {
        const { channel, agent, invite, nonce, keyPackageHash, state, since } = change.record
        putJoiner.run(channel, agent, invite, nonce, keyPackageHash, state, since)
        return
      }
      case 'putAttempt': {
        const { invite, channel, name, owner, secret, expiresAt, nonce, keyPackage } = change.record
        putAttempt.run(invite, channel, name, owner, secret, expiresAt, nonce, keyPackage)
        return
      }
      case 'dropAttempt':
        dropAttempt.run(change.invite)
        return
      case 'putPin':
        putPin.run(change.owner, change.identity, change.agent)
        return
      case 'putRelay':
        putRelay.run(change.endpoint, change.relayId)
        return
      default:
        throw new StaticError('internal_error', `The store knows no change ${JSON.stringify(change satisfies never)}.`)
    }
  }
}
