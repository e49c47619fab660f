/**
 * Disks of a world: what was synced survives a crash, and nothing else. An agent's write is synced when it returns; a
 * relay's operation is synced some time after it was asked for, and answered some time after that, so that a crash
 * falls before, between and after.
 */
import { createHash } from 'node:crypto'
import {
  type Account,
  type Entry,
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
      write: (changes) => {
        if (changes.length === 0) return
        machine.effect('a sync', () => {
          rows.write(changes)
          this.#world.note(`${machine.name} writes ${changes.map(({ type }) => type).join()}`)
        })
        // What must follow a write does not, even if the write itself survives.
        machine.checkAlive()
      },
      onFailure: () => {},
      checkpoint: () => {},
      close: () => {},
    }
  }

  /** What is on it. */
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
  readonly #world: World
  #rows = new MemoryRows()
  /** By channel, everything that was ever in its log. */
  #logs = new Map<string, readonly Entry[]>()
  readonly #deployment: Store['deployment']
  readonly #retention: Retention

  constructor(world: World, deployment: Store['deployment'], retention: Retention) {
    this.#world = world
    this.#deployment = deployment
    this.#retention = retention
  }

  /** What is on it now, on a disk of its own. */
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
    const message = { channel, slot, messageId, counter, control, ciphertext, paid: true, now: this.#world.now }
    // It is refused where the logs are too far apart.
    void this.#store?.run('append', { ...message, actor: { agent: sender, account } })
  }

  /** The database, for a life of its relay. */
  open(machine: Machine, listener: StoreListener): Store {
    const world = this.#world
    const ledger = new Ledger(this.#rows, (bytes) => createHash('sha256').update(bytes).digest(), this.#retention)
    const syncs = {}
    const answers = {}
    const store: Store = {
      deployment: this.#deployment,
      run: (name, request) =>
        new Promise((resolve, reject) => {
          world.plan(world.below(4), syncs, machine, () => {
            if (name !== 'sweep') world.note(`${machine.name} syncs ${name}`)
            let decision: ReturnType<typeof ledger.run<typeof name>>
            try {
              decision = ledger.run(name, request)
            } catch (error) {
              return reject(error)
            }
            for (const event of decision.events) if (event.type === 'appended') this.#keep(event.channel, event.entry)
            world.plan(world.below(4), answers, machine, () => {
              for (const event of decision.events) listener(event)
              resolve(decision.result)
            })
          })
        }),
      healthy: () => true,
      durability: () => 'memory',
      close: () => Promise.resolve(),
    }
    this.#store = store
    return store
  }

  /** The log of a channel, from its first entry on. */
  log(channel: string): readonly Entry[] {
    return this.#logs.get(channel) ?? []
  }

  /** Who is on the roster of a channel. */
  roster(channel: string): readonly string[] {
    const members = this.#rows.channel(channel)?.members.values() ?? []
    return [...members].filter((member) => onRoster(member)).map(({ agent }) => agent)
  }

  #keep(channel: string, entry: Entry): void {
    this.#logs.set(channel, [...this.log(channel), entry])
    for (const hearer of this.#hearers) hearer(this, channel, entry)
  }
}
