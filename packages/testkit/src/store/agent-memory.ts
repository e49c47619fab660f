/** The agent's store in memory, for tests: the same answers as the database, and nothing survives. */
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  AnsweredRecord,
  AttemptRecord,
  Change,
  ChannelId,
  ChannelRecord,
  EpochRecord,
  IdentityRecord,
  InboxRecord,
  InviteRecord,
  JoinerRecord,
  KeyPackageRecord,
  LeaverRecord,
  OutboxRecord,
  PendingCommitRecord,
  SenderRecord,
  Snapshot,
  StoredChannel,
} from '@static/sdk/internal'

interface MemoryChannel {
  record: ChannelRecord
  welcome: Uint8Array | undefined
  epoch: { group: Uint8Array; rows: Map<number, Uint8Array> } | undefined
  pending: PendingCommitRecord | undefined
  readonly senders: Map<string, SenderRecord>
  readonly leavers: Map<string, LeaverRecord>
  /** By message id. */
  readonly outbox: Map<string, OutboxRecord>
  readonly answered: Map<string, AnsweredRecord>
  readonly inbox: Map<number, InboxRecord>
}

interface Tables {
  readonly keyPackages: Map<string, KeyPackageRecord>
  readonly channels: Map<ChannelId, MemoryChannel>
  readonly pins: Map<string, Snapshot['pins'][number]>
  readonly relays: Map<string, Uint8Array>
  readonly invites: Map<string, InviteRecord>
  /** By channel and agent. */
  readonly joiners: Map<string, JoinerRecord>
  readonly attempts: Map<string, AttemptRecord>
}

/** Makes an empty store for an agent. */
export function makeMemoryStore(identity: IdentityRecord): AgentStore {
  return new MemoryStore(identity)
}

class MemoryStore implements AgentStore {
  readonly #identity: IdentityRecord
  #tables: Tables = {
    keyPackages: new Map(),
    channels: new Map(),
    pins: new Map(),
    relays: new Map(),
    invites: new Map(),
    joiners: new Map(),
    attempts: new Map(),
  }
  #closed = false

  constructor(identity: IdentityRecord) {
    this.#identity = structuredClone(identity)
  }

  load(): Snapshot {
    this.#checkOpen()
    const { keyPackages, channels, pins, relays, invites, joiners, attempts } = this.#tables
    // Copies: the caller wipes what it is done with.
    return structuredClone({
      identity: this.#identity,
      keyPackages: [...keyPackages.values()].sort((a, b) => a.createdAt - b.createdAt || compare(a.ref, b.ref)),
      channels: sortedValues(channels).map(storedChannel),
      pins: sortedValues(pins),
      relays: new Map([...relays].sort(([a], [b]) => compare(a, b))),
      invites: sortedValues(invites),
      joiners: sortedValues(joiners),
      attempts: sortedValues(attempts),
    })
  }

  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.#checkOpen()
    const found = [...(this.#tables.channels.get(id)?.inbox.values() ?? [])].filter(({ index }) => index > after)
    return structuredClone(found.sort((a, b) => a.index - b.index).slice(0, limit))
  }

  write(changes: readonly Change[]): void {
    this.#checkOpen()
    const tables = copyFor(changes, this.#tables)
    for (const change of structuredClone(changes)) apply(tables, change)
    this.#tables = tables
  }

  checkpoint(): void {
    this.#checkOpen()
  }

  close(): void {
    this.#closed = true
  }

  #checkOpen(): void {
    if (this.#closed) throw StaticError.of('closed', 'The agent is closed.')
  }
}

/** Copies of all that the changes touch: if one throws, nothing has happened. */
function copyFor(changes: readonly Change[], tables: Tables): Tables {
  const { keyPackages, channels, pins, relays, invites, joiners, attempts } = tables
  const copied = new Map(channels)
  const touched = changes.map((change) =>
    change.type === 'putChannel' ? change.record.id : 'id' in change && change.id,
  )
  for (const id of new Set(touched)) {
    const channel = id === false ? undefined : channels.get(id)
    if (channel !== undefined) copied.set(channel.record.id, copyChannel(channel))
  }
  return {
    keyPackages: new Map(keyPackages),
    channels: copied,
    pins: new Map(pins),
    relays: new Map(relays),
    invites: new Map(invites),
    joiners: new Map(joiners),
    attempts: new Map(attempts),
  }
}

function copyChannel(channel: MemoryChannel): MemoryChannel {
  const { epoch, senders, leavers, outbox, answered, inbox } = channel
  return {
    ...channel,
    epoch: epoch && { group: epoch.group, rows: new Map(epoch.rows) },
    senders: new Map(senders),
    leavers: new Map(leavers),
    outbox: new Map(outbox),
    answered: new Map(answered),
    inbox: new Map(inbox),
  }
}

function apply(tables: Tables, change: Change): void {
  const existing = (id: ChannelId): MemoryChannel => {
    const channel = tables.channels.get(id)
    if (channel === undefined) throw new StaticError('internal_error', `The store has no channel ${id}.`)
    return channel
  }
  switch (change.type) {
    case 'putKeyPackage':
      tables.keyPackages.set(change.record.ref, change.record)
      return
    case 'dropKeyPackage':
      tables.keyPackages.delete(change.ref)
      return
    case 'putChannel': {
      const channel = tables.channels.get(change.record.id)
      if (channel === undefined) tables.channels.set(change.record.id, newChannel(change.record))
      else channel.record = change.record
      return
    }
    case 'dropChannel':
      tables.channels.delete(change.id)
      for (const { id, channel } of tables.invites.values()) if (channel === change.id) dropInvite(tables, id)
      return
    case 'putWelcome':
      if (change.welcome !== undefined) existing(change.id).welcome = change.welcome
      else if (tables.channels.has(change.id)) existing(change.id).welcome = undefined
      return
    case 'putEpoch': {
      if (change.epoch === undefined && !tables.channels.has(change.id)) return
      const channel = existing(change.id)
      channel.epoch = change.epoch && { group: change.epoch.group, rows: new Map(change.epoch.rows) }
      channel.pending = undefined
      return
    }
    case 'putGroup':
      currentEpoch(existing(change.id)).group = change.group
      return
    case 'putRow':
      currentEpoch(existing(change.id)).rows.set(change.leaf, change.row)
      return
    case 'putPending':
      if (change.pending !== undefined) existing(change.id).pending = change.pending
      else if (tables.channels.has(change.id)) existing(change.id).pending = undefined
      return
    case 'putSender':
      existing(change.id).senders.set(change.sender.agent, change.sender)
      return
    case 'dropSender':
      tables.channels.get(change.id)?.senders.delete(change.agent)
      return
    case 'putOutbox': {
      const channel = existing(change.id)
      channel.outbox.set(hex(change.record.messageId), change.record)
      channel.answered.delete(hex(change.record.messageId))
      return
    }
    case 'answerOutbox': {
      const channel = tables.channels.get(change.id)
      const id = hex(change.messageId)
      const message = channel?.outbox.get(id)
      if (channel === undefined || message === undefined) return
      channel.outbox.delete(id)
      const { messageId, counter } = message
      channel.answered.set(id, { messageId, counter, bodyHash: change.bodyHash })
      return
    }
    case 'dropOutbox':
      tables.channels.get(change.id)?.outbox.delete(hex(change.messageId))
      tables.channels.get(change.id)?.answered.delete(hex(change.messageId))
      return
    case 'putInbox':
      existing(change.id).inbox.set(change.record.index, change.record)
      return
    case 'dropInbox':
      tables.channels.get(change.id)?.inbox.delete(change.index)
      return
    case 'putLeaver':
      existing(change.id).leavers.set(change.leaver.agent, change.leaver)
      return
    case 'dropLeaver':
      tables.channels.get(change.id)?.leavers.delete(change.agent)
      return
    case 'putInvite':
      existing(change.record.channel)
      tables.invites.set(change.record.id, change.record)
      return
    case 'dropInvite':
      dropInvite(tables, change.id)
      return
    case 'putJoiner': {
      const { channel, agent, invite } = change.record
      if (!tables.invites.has(invite)) throw new StaticError('internal_error', `The store has no invite ${invite}.`)
      tables.joiners.set(`${channel} ${agent}`, change.record)
      return
    }
    case 'putAttempt':
      tables.attempts.set(change.record.invite, change.record)
      return
    case 'dropAttempt':
      tables.attempts.delete(change.invite)
      return
    case 'putPin': {
      const { owner, identity, agent } = change
      tables.pins.set(`${owner} ${hex(identity)}`, { owner, identity, agent })
      return
    }
    case 'putRelay':
      tables.relays.set(change.endpoint, change.relayId)
      return
    default:
      throw new StaticError('internal_error', `The store knows no change ${JSON.stringify(change satisfies never)}.`)
  }
}

function dropInvite({ invites, joiners }: Tables, id: string): void {
  invites.delete(id)
  for (const [key, { invite }] of joiners) if (invite === id) joiners.delete(key)
}

function newChannel(record: ChannelRecord): MemoryChannel {
  return {
    record,
    welcome: undefined,
    epoch: undefined,
    pending: undefined,
    senders: new Map(),
    leavers: new Map(),
    outbox: new Map(),
    answered: new Map(),
    inbox: new Map(),
  }
}

function currentEpoch(channel: MemoryChannel): NonNullable<MemoryChannel['epoch']> {
  if (channel.epoch === undefined) {
    throw new StaticError('internal_error', `Channel ${channel.record.id} has no group in the store.`)
  }
  return channel.epoch
}

function storedChannel(channel: MemoryChannel): StoredChannel {
  const { record, welcome, epoch, pending, senders, leavers, outbox, answered, inbox } = channel
  return {
    record,
    welcome,
    epoch: epoch && sortedEpoch(epoch),
    pending: pending && { ...pending, next: sortedEpoch(pending.next) },
    senders: sortedValues(senders),
    leavers: sortedValues(leavers),
    outbox: [...outbox.values()].sort((a, b) => a.counter - b.counter),
    answered: [...answered.values()].sort((a, b) => a.counter - b.counter),
    inboxBytes: [...inbox.values()].reduce((sum, { ciphertext }) => sum + ciphertext.length, 0),
  }
}

function sortedEpoch({ group, rows }: EpochRecord): EpochRecord {
  return { group, rows: new Map([...rows].sort(([a], [b]) => a - b)) }
}

function sortedValues<T>(map: ReadonlyMap<string, T>): T[] {
  return [...map].sort(([a], [b]) => compare(a, b)).map(([, value]) => value)
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
