/** The agent's store in memory, for tests: the same answers as the database, and nothing survives. */
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  AnsweredRecord,
  Change,
  ChannelId,
  ChannelRecord,
  EpochRecord,
  IdentityRecord,
  InboxRecord,
  KeyPackageRecord,
  OutboxRecord,
  PendingCommitRecord,
  SenderRecord,
  Snapshot,
  StoredChannel,
} from '../ports.ts'

interface MemoryChannel {
  record: ChannelRecord
  welcome: Uint8Array | undefined
  epoch: { group: Uint8Array; rows: Map<number, Uint8Array> } | undefined
  pending: PendingCommitRecord | undefined
  readonly senders: Map<string, SenderRecord>
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
}

/** Makes an empty store for an agent. */
export function makeMemoryStore(identity: IdentityRecord): AgentStore {
  return new MemoryStore(identity)
}

class MemoryStore implements AgentStore {
  readonly #identity: IdentityRecord
  #tables: Tables = { keyPackages: new Map(), channels: new Map(), pins: new Map(), relays: new Map() }
  #closed = false

  constructor(identity: IdentityRecord) {
    this.#identity = structuredClone(identity)
  }

  load(): Snapshot {
    this.#checkOpen()
    const { keyPackages, channels, pins, relays } = this.#tables
    // Copies: the caller wipes what it is done with.
    return structuredClone({
      identity: this.#identity,
      keyPackages: [...keyPackages.values()].sort((a, b) => a.createdAt - b.createdAt || compare(a.ref, b.ref)),
      channels: sortedValues(channels).map(storedChannel),
      pins: sortedValues(pins),
      relays: new Map([...relays].sort(([a], [b]) => compare(a, b))),
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
function copyFor(changes: readonly Change[], { keyPackages, channels, pins, relays }: Tables): Tables {
  const copied = new Map(channels)
  const touched = changes.map((change) =>
    change.type === 'putChannel' ? change.record.id : 'id' in change && change.id,
  )
  for (const id of new Set(touched)) {
    const channel = id === false ? undefined : channels.get(id)
    if (channel !== undefined) copied.set(channel.record.id, copyChannel(channel))
  }
  return { keyPackages: new Map(keyPackages), channels: copied, pins: new Map(pins), relays: new Map(relays) }
}

function copyChannel(channel: MemoryChannel): MemoryChannel {
  const { epoch, senders, outbox, answered, inbox } = channel
  return {
    ...channel,
    epoch: epoch && { group: epoch.group, rows: new Map(epoch.rows) },
    senders: new Map(senders),
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
      if (channel?.outbox.delete(id) !== true) return
      channel.answered.set(id, { messageId: change.messageId, bodyHash: change.bodyHash })
      return
    }
    case 'dropOutbox':
      tables.channels.get(change.id)?.outbox.delete(hex(change.messageId))
      tables.channels.get(change.id)?.answered.delete(hex(change.messageId))
      return
    case 'putInbox':
      existing(change.id).inbox.set(change.record.index, change.record)
      return
    case 'dropInbox': {
      const inbox = tables.channels.get(change.id)?.inbox
      for (const index of inbox?.keys() ?? []) if (index <= change.upTo) inbox?.delete(index)
      return
    }
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

function newChannel(record: ChannelRecord): MemoryChannel {
  return {
    record,
    welcome: undefined,
    epoch: undefined,
    pending: undefined,
    senders: new Map(),
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
  const { record, welcome, epoch, pending, senders, outbox, answered, inbox } = channel
  return {
    record,
    welcome,
    epoch: epoch && sortedEpoch(epoch),
    pending: pending && { ...pending, next: sortedEpoch(pending.next) },
    senders: sortedValues(senders),
    outbox: [...outbox.values()].sort((a, b) => a.counter - b.counter),
    answered: sortedValues(answered),
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
