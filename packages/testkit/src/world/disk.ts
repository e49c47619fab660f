/**
 * Disks of a world: synced data survives a crash, and nothing else does. An agent's write is synced when it returns; a
 * relay's operation is synced some time after it was asked for, and answered some time after that, so that a crash
 * falls before, between and after.
 */
import { createHash } from 'node:crypto'
import { commitBody } from '@static/protocol'
import {
  type Account,
  addEntry,
  type Entry,
  type EntryDraft,
  type StoreEvent,
  Ledger,
  onRoster,
  type Retention,
  type Store,
  type StoreListener,
} from '@static/relay/internal'
import type { AgentStore, IdentityRecord } from '@static/sdk/internal'
import { makeMemoryStore } from '../store/agent-memory.ts'
import { MemoryRows } from '../store/relay-memory-rows.ts'
import type { Machine } from './machine.ts'
import type { World } from './world.ts'

type MessageEntry = Extract<Entry, { kind: 'message' }>

/** Makes a decision when its turn has come, and answers later. */
type Decide = <Result>(make: () => { result: Result; events: readonly StoreEvent[] }) => Promise<Result>

const sha256 = (bytes: Uint8Array): Uint8Array => createHash('sha256').update(bytes).digest()

/** The disk of an agent. */
export class AgentDisk {
  readonly #world: World
  readonly #rows: AgentStore

  constructor(world: World, identity: IdentityRecord) {
    this.#world = world
    this.#rows = makeMemoryStore(identity)
  }

  /** The database, for a life of its agent. */
  open(machine: Machine): AgentStore {
    const rows = this.#rows
    const reading = <Result>(read: () => Result): Result => {
      machine.checkAlive()
      return read()
    }
    return {
      load: () => reading(() => rows.load()),
      inbox: (id, after, limit) => reading(() => rows.inbox(id, after, limit)),
      poison: (id) => reading(() => rows.poison(id)),
      requests: (id, after, limit) => reading(() => rows.requests(id, after, limit)),
      answers: (id) => reading(() => rows.answers(id)),
      fileDigests: (id, index) => reading(() => rows.fileDigests(id, index)),
      uploadParts: (id, fileId) => reading(() => rows.uploadParts(id, fileId)),
      kept: (id, before, limit) => reading(() => rows.kept(id, before, limit)),
      keptSizes: (id, before, limit) => reading(() => rows.keptSizes(id, before, limit)),
      write: (changes) => {
        if (changes.length === 0) return
        machine.effect('a sync', () => {
          rows.write(changes)
          this.#world.note(`${machine.name} writes ${changes.map(({ type }) => type).join()}`)
        })
        // The steps after a write do not happen, even if the write itself survives.
        machine.checkAlive()
      },
      onFailure: () => {},
      checkpoint: () => {},
      close: () => {},
    }
  }

  /** Its content. */
  get contents(): ReturnType<AgentStore['load']> {
    return this.#rows.load()
  }
}

/** Hears of every entry that a disk, or a copy of it, gets. */
export type Hearer = (disk: RelayDisk, channel: string, entry: Entry) => void

/** The disk of a relay. */
export class RelayDisk {
  /** Shared with its copies. */
  #hearers: Hearer[] = []
  #store: Store | undefined
  #decide: Decide | undefined
  readonly #world: World
  #rows = new MemoryRows()
  /** Everything that was ever in the log of each channel. */
  #logs = new Map<string, readonly Entry[]>()
  readonly #deployment: Store['deployment']
  readonly #retention: Retention

  constructor(world: World, deployment: Store['deployment'], retention: Retention) {
    this.#world = world
    this.#deployment = deployment
    this.#retention = retention
  }

  /** A copy of its present content, on a separate disk. */
  copy(): RelayDisk {
    const copy = new RelayDisk(this.#world, this.#deployment, this.#retention)
    copy.#rows = this.#rows.copy()
    copy.#logs = new Map(this.#logs)
    copy.#hearers = this.#hearers
    return copy
  }

  onEntry(hearer: Hearer): void {
    this.#hearers.push(hearer)
  }

  /** Stores a message as if its sender had sent it to the relay of this disk, which need not know that sender. */
  pass(channel: string, entry: MessageEntry, account: Account | undefined): void {
    const { sender, slot, messageId, counter, control, ciphertext } = entry
    const paid = account ?? this.#rows.channels.get(channel)?.account
    const message = { channel, slot, messageId, counter, control, ciphertext, paid, now: this.#world.now }
    // It is refused where the logs are too far apart.
    void this.#store?.run('append', { ...message, actor: { agent: sender, account } })
  }

  /** Puts a message or commit into the log that no honest relay would take. The roster stays as it is. */
  force(channel: string, draft: Exclude<EntryDraft, { kind: 'leave' }>): void {
    this.#decide?.(() => this.#forced(channel, draft)).catch(() => {})
  }

  /** The database, for a life of its relay. */
  open(machine: Machine, listener: StoreListener): Store {
    const world = this.#world
    const ledger = new Ledger(this.#rows, sha256, this.#retention)
    const syncs = {}
    const answers = {}
    const decide: Decide = (make) =>
      new Promise((resolve, reject) => {
        world.plan(world.below(4), syncs, machine, () => {
          let decision: ReturnType<typeof make>
          try {
            decision = make()
          } catch (error) {
            return reject(error)
          }
          for (const event of decision.events) if (event.type === 'appended') this.#keep(event.channel, event.entry)
          world.plan(world.below(4), answers, machine, () => {
            for (const event of decision.events) listener(event)
            resolve(decision.result)
          })
        })
      })
    const store: Store = {
      deployment: this.#deployment,
      run: (name, request) =>
        decide(() => {
          if (name !== 'sweep') world.note(`${machine.name} syncs ${name}`)
          return ledger.run(name, request)
        }),
      healthy: () => true,
      durability: () => 'memory',
      close: () => Promise.resolve(),
    }
    this.#store = store
    this.#decide = decide
    return store
  }

  /** The log of a channel, from its first entry on. */
  log(channel: string): readonly Entry[] {
    return this.#logs.get(channel) ?? []
  }

  /** The members on the roster of a channel. */
  roster(channel: string): readonly string[] {
    const members = this.#rows.channels.get(channel)?.members.values() ?? []
    return [...members].filter((member) => onRoster(member)).map(({ agent }) => agent)
  }

  /** Who owns a channel, who may take it over, and whose it is to pay; undefined if there is no such channel. */
  ownership(id: string): { owner: string; standby: string | undefined; account: string } | undefined {
    const { owner, standby, account } = this.#rows.channels.get(id) ?? {}
    return owner !== undefined && account ? { owner, standby, account: account.id } : undefined
  }

  /** How many channels an account has, and how many bytes count for it, in all and of each channel. */
  booksOf(id: string): { channels: number; bytes: number; held: number } {
    const account = { id, mode: 'live' } as const
    const channels = [...this.#logs.keys()].flatMap((each) => this.#rows.channels.get(each) ?? [])
    const held = channels.reduce((sum, channel) => sum + (channel.account.id === id ? channel.bytes : 0), 0)
    return { channels: this.#rows.names.count(account), bytes: this.#rows.accounts.get(account).bytes, held }
  }

  #forced(id: string, draft: Exclude<EntryDraft, { kind: 'leave' }>): { result: undefined; events: StoreEvent[] } {
    const rows = this.#rows
    const channel = rows.channels.get(id)
    const events: StoreEvent[] = []
    if (channel?.last.slot !== draft.slot) return { result: undefined, events }
    const context = { rows, hash: sha256, retention: this.#retention, emit: (event: StoreEvent) => events.push(event) }
    const body = draft.kind === 'message' ? draft.ciphertext : commitBody(draft.commit, draft.declaration)
    addEntry(context, channel, draft, body)
    rows.settle()
    return { result: undefined, events }
  }

  #keep(channel: string, entry: Entry): void {
    this.#logs.set(channel, [...this.log(channel), entry])
    for (const hearer of this.#hearers) hearer(this, channel, entry)
  }
}
