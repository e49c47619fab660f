/** One channel and the agents around it, for stories about the store; every engine is told the same ones. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, describe } from 'node:test'
import { type LeaveNoticeFields, chainNext, chainStart, commitBody, leaveBody } from '@static/protocol'
import type {
  Account,
  Actor,
  Entry,
  Position,
  StoreRequest,
  StoreResult,
  Retention,
  Standing,
  Store,
  StoreEvent,
  StoreListener,
  StoreOperation,
  StoredWelcome,
  WelcomeFields,
} from '../../src/ports.ts'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { IS_WHOLE } from '@static/testkit/whole'
import { SqliteEngine } from '../../src/store/sqlite/engine.ts'
import { openDatabase } from '../../src/store/sqlite/schema.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { emptyScratch, openScratch } from '../support/postgres.ts'

export const HOUR = 3600_000
export const DAY: number = 24 * HOUR
/** At the start of a UTC day. */
export const START: number = Date.UTC(2026, 10, 15)

export const RETENTION: Retention = {
  entryMs: 7 * DAY,
  messageIdMs: 7 * DAY,
  channelBytes: 67_108_864,
  channelEntries: 500_000,
  accountBytes: 1_073_741_824,
  freeControl: 3,
  freeCommitBytes: 262_144,
  freeChannelCommitBytes: 4_194_304,
  memberAddsPerHour: 60,
}

type OpenStore = (retention: Retention, listener: StoreListener, t: TestContext) => Promise<Store>

const ENGINES: Readonly<Record<string, OpenStore>> = {
  memory: (retention, listener) => openMemoryStore({ retention }, listener),
  sqlite: (retention, listener, t) => openSqliteStore({ path: temporaryFile(t), retention }, listener),
  postgres: async (retention, listener) => openScratch(await emptyScratch(), retention, listener, { lanes: 1 }),
}

/** A path that is gone after the test. */
export function temporaryFile(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-store-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return join(directory, 'relay.sqlite')
}

/** What a crash would leave now of a store in a file. Returns the path of the copy. */
export async function crashed(store: Store, path: string, name: string): Promise<string> {
  // Compaction follows the answer of its sweep: the next answer comes after it, and then nothing is written.
  await store.run('invite', { id: 'none' })
  const copy = join(dirname(path), name)
  for (const suffix of ['', '-wal']) cpSync(`${path}${suffix}`, `${copy}${suffix}`)
  return copy
}

/** Opens a file and closes it again, as a store does. */
export function reopened(path: string, retention: Retention = RETENTION): void {
  const db = openDatabase(path)
  new SqliteEngine(db, retention).close()
  db.close()
}

/** The rows of channels and senders, in a file that no store has open. */
export function rowsIn(path: string): readonly string[] {
  const db = new DatabaseSync(path)
  try {
    const rows = (sql: string): string[] => db.prepare(sql).all().map(lineOf)
    return [...rows('SELECT * FROM channels ORDER BY number'), ...rows('SELECT * FROM senders ORDER BY channel, agent')]
  } finally {
    db.close()
  }
}

function lineOf(row: object): string {
  const fields = Object.entries(row).map(([name, value]) => {
    return `${name} ${value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)}`
  })
  return fields.join(', ')
}

export type Open = (t: TestContext, retention?: Partial<Retention>) => Promise<ChannelFixture>

/** Tells the same stories of every engine. */
export function forEachEngine(define: (open: Open) => void): void {
  forEngines(Object.keys(ENGINES), define)
}

/** Tells stories that the ledger decides for all engines: `npm test` of that in memory, the whole form of each. */
export function forLedger(define: (open: Open) => void): void {
  forEngines(IS_WHOLE ? Object.keys(ENGINES) : ['memory'], define)
}

function forEngines(names: readonly string[], define: (open: Open) => void): void {
  for (const name of names) {
    const openStore = ENGINES[name]
    assert.ok(openStore)
    describe(name, () => {
      define(async (t, retention = {}) => {
        const events: StoreEvent[] = []
        const store = await openStore({ ...RETENTION, ...retention }, (event) => events.push(event), t)
        // Before the file is removed: hooks run in the order in which they were given.
        t.after(() => store.close())
        return new ChannelFixture(store, events)
      })
    })
  }
}

export const sha256 = (bytes: Uint8Array | string): Uint8Array =>
  new Uint8Array(createHash('sha256').update(bytes).digest())
export const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'))
export const text = (value: string): Uint8Array => new TextEncoder().encode(value)
/** The same for the same label: a message id, a channel id, an invite id. */
export const id16 = (label: string): Uint8Array => sha256(label).subarray(0, 16)
export const hex16 = (label: string): string => Buffer.from(id16(label)).toString('hex')

/** The public key and the id of an agent by its name. */
export const publicKey = (name: string): Uint8Array => sha256(`key of ${name}`)
export const agentId = (name: string): string => Buffer.from(sha256(publicKey(name))).toString('hex')
export const account = (name: string, mode: Account['mode'] = 'live'): Account => ({ id: `account of ${name}`, mode })
export const member = (name: string): Actor & { account: Account } => ({ agent: agentId(name), account: account(name) })
export const guest = (name: string): Actor => ({ agent: agentId(name), account: undefined })
export const notice = (name: string, slot: number): LeaveNoticeFields => ({
  publicKey: publicKey(name),
  slot: BigInt(slot),
  leafKeys: [sha256(`leaf of ${name}`)],
  signature: sha256(`leave of ${name} at ${slot}`),
})
export const welcomeFor = (name: string, fields: Partial<WelcomeFields> = {}): WelcomeFields => ({
  agent: agentId(name),
  welcome: text(`welcome ${name}`),
  inviteId: new Uint8Array(),
  tag: new Uint8Array(),
  ...fields,
})

export interface CommitOptions extends Partial<Omit<StoreRequest<'commit'>, 'declaration' | 'welcomes'>> {
  readonly adds?: readonly string[]
  readonly removes?: readonly string[]
  readonly vouches?: readonly string[]
  readonly notices?: readonly LeaveNoticeFields[]
  /** Who owns the channel afterwards, and its standby. */
  readonly owner?: string
  readonly standby?: string
  readonly welcomes?: readonly WelcomeFields[]
}

/** A store, what it has told, and the short way to ask it. */
export class ChannelFixture {
  readonly store: Store
  readonly events: StoreEvent[]
  readonly channel: string = hex16('channel')
  now: number = START
  /** As far as this world has seen. */
  head = 0
  readonly #counters = new Map<string, number>()
  #made = 0

  constructor(store: Store, events: StoreEvent[]) {
    this.store = store
    this.events = events
  }

  run<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Promise<StoreResult<Name>> {
    return this.store.run(name, request)
  }

  /** The events since the last time. */
  told(): StoreEvent[] {
    return this.events.splice(0)
  }

  create(owner: string, fields: Partial<StoreRequest<'create'>> = {}): Promise<StoreResult<'create'>> {
    return this.run('create', {
      actor: member(owner),
      channel: this.channel,
      name: 'acme/support/routing',
      welcome: text('founding'),
      guestLimit: 1000,
      maxChannels: 100,
      now: this.now,
      ...fields,
    })
  }

  /** A channel with these members; the first one owns it and vouches for the others. */
  async found(owner: string, ...others: readonly string[]): Promise<void> {
    assert.ok(!('refused' in (await this.create(owner))))
    if (others.length > 0) accepted(await this.commit(owner, { adds: others, vouches: others }))
  }

  /** Alice vouches for members. */
  vouch(agents: readonly string[], fields: Partial<StoreRequest<'vouch'>> = {}): Promise<StoreResult<'vouch'>> {
    const request = { actor: member('alice'), channel: this.channel, slot: this.head, agents: agents.map(agentId) }
    return this.run('vouch', { ...request, ...fields })
  }

  /** Resets the roster at the last entry. */
  async reset(
    name: string,
    agents: readonly string[],
    vouched: readonly string[],
    fields: Partial<StoreRequest<'resetRoster'>> = {},
  ): Promise<StoreResult<'resetRoster'>> {
    const { lastIndex, head } = await this.stand(name)
    const { entries } = await this.read(name, lastIndex - 1)
    const position = { index: lastIndex, hash: entries[0]!.hash, slot: head }
    const named = { agents: agents.map(agentId), vouched: vouched.map(agentId) }
    return this.run('resetRoster', { actor: member(name), channel: this.channel, position, ...named, ...fields })
  }

  /** Registers an invite of Alice's. */
  invite(
    label: string,
    fields: Partial<StoreRequest<'registerInvite'>['invite']> = {},
  ): Promise<StoreResult<'registerInvite'>> {
    const common = { id: hex16(label), channel: this.channel, admissionKey: text('k'), expiresAt: this.now + 30 * DAY }
    const invite = { ...common, maxUses: 5, members: false, ...fields }
    return this.run('registerInvite', { actor: member('alice'), invite, maxInvites: 9, now: this.now })
  }

  message(sender: string, fields: Partial<StoreRequest<'append'>> = {}): StoreRequest<'append'> {
    const { actor = member(sender) } = fields
    return {
      actor,
      channel: this.channel,
      slot: this.head,
      messageId: id16(`message ${this.#made++}`),
      counter: (this.#counters.get(sender) ?? 0) + 1,
      control: false,
      ciphertext: text(`from ${sender}`),
      paid: actor.account ?? account('alice'),
      now: this.now,
      ...fields,
    }
  }

  /** Sends the next message of a sender. */
  async say(sender: string, fields: Partial<StoreRequest<'append'>> = {}): Promise<StoreResult<'append'>> {
    const request = this.message(sender, fields)
    const result = await this.run('append', request)
    if ('index' in result && request.counter === (this.#counters.get(sender) ?? 0) + 1) {
      this.#counters.set(sender, request.counter)
    }
    return result
  }

  /** So many messages at once. */
  async chatter(
    sender: string,
    count: number,
    fields: Partial<StoreRequest<'append'>> = {},
  ): Promise<StoreResult<'append'>[]> {
    const first = (this.#counters.get(sender) ?? 0) + 1
    const results = await Promise.all(
      Array.from({ length: count }, (_, at) =>
        this.run('append', this.message(sender, { counter: first + at, ...fields })),
      ),
    )
    this.#counters.set(sender, first - 1 + results.filter((result) => 'index' in result).length)
    return results
  }

  /** A sender that was added anew counts from one again. */
  recount(sender: string, counter = 0): void {
    this.#counters.set(sender, counter)
  }

  commitRequest(sender: string, options: CommitOptions = {}): StoreRequest<'commit'> {
    const {
      adds = [],
      removes = [],
      vouches = [],
      notices = [],
      owner,
      standby,
      welcomes = adds.map((name) => welcomeFor(name)),
      ...fields
    } = options
    return {
      actor: member(sender),
      channel: this.channel,
      slot: this.head,
      messageId: id16(`commit ${this.#made++}`),
      commit: text(`commit of ${sender}`),
      declaration: {
        adds: adds.map((name) => bytesOf(agentId(name))),
        removes: removes.map((name) => bytesOf(agentId(name))),
        leaveNotices: notices,
        vouches: vouches.map((name) => bytesOf(agentId(name))),
        ...(owner !== undefined && { owner: bytesOf(agentId(owner)) }),
        ...(standby !== undefined && { standby: bytesOf(agentId(standby)) }),
        signature: sha256('declaration'),
      },
      welcomes,
      groupInfo: new Uint8Array(),
      paid: 10_000,
      maxChannels: 100,
      guestLimit: 1000,
      now: this.now,
      ...fields,
    }
  }

  /** Without a word about Welcomes, those who are added get theirs at once. */
  async commit(sender: string, options: CommitOptions = {}): Promise<StoreResult<'commit'>> {
    const result = await this.run('commit', this.commitRequest(sender, options))
    if (!('index' in result)) return result
    this.head = Math.max(this.head, result.head)
    if (options.welcomes) return result
    const { adds = [], channel = this.channel } = options
    const positions = [{ channel, index: result.index }]
    await Promise.all(adds.map((name) => this.run('ack', { agent: agentId(name), positions })))
    if (adds.length > 0) this.events.push(...this.told().filter(({ type }) => type !== 'welcomed'))
    return result
  }

  leave(name: string, fields: Partial<StoreRequest<'leave'>> = {}): Promise<StoreResult<'leave'>> {
    const request = { actor: guest(name), channel: this.channel, notice: notice(name, this.head), now: this.now }
    return this.run('leave', { ...request, ...fields })
  }

  reject(actor: Actor, slot: number): Promise<StoreResult<'reject'>> {
    return this.run('reject', { actor, channel: this.channel, slot })
  }

  async ack(name: string, index: number): Promise<void> {
    await this.run('ack', { agent: agentId(name), positions: [{ channel: this.channel, index }] })
  }

  read(name: string, after: number, fields: Partial<StoreRequest<'read'>> = {}): Promise<StoreResult<'read'>> {
    const bounds = { maxBytes: 1_000_000_000, maxEntries: 1_000_000 }
    return this.run('read', { channel: this.channel, agent: agentId(name), after, ...bounds, ...fields })
  }

  /** Where an agent stands: in the channels named, or in all. */
  resume(name: string, channels?: readonly string[], page = {}): Promise<StoreResult<'resume'>> {
    return this.run('resume', { agent: agentId(name), channels, after: undefined, limit: 1000, ...page })
  }

  /** The Welcomes that wait for an agent. */
  async waiting(name: string): Promise<readonly StoredWelcome[]> {
    const { welcomes, more } = await this.run('welcomes', { agent: agentId(name), after: 0, maxBytes: 1_000_000_000 })
    assert.equal(more, false)
    return welcomes
  }

  /** Where an agent stands in the channel. */
  async standing(name: string): Promise<StoreResult<'resume'>['standings'][number]> {
    const { standings } = await this.resume(name, [this.channel])
    const [first] = standings
    assert.ok(first)
    return first
  }

  /** The same, of one that has something to resume. */
  async stand(name: string): Promise<Standing> {
    const standing = await this.standing(name)
    assert.ok('head' in standing, JSON.stringify(standing))
    return standing
  }

  /** Who is on the roster, of these. */
  async roster(...names: readonly string[]): Promise<string[]> {
    const found: string[] = []
    for (const name of names) {
      const { member: held, standings } = await this.resume(name)
      assert.equal(held, standings.length > 0)
      if (standings.some(({ channel }) => channel === this.channel)) found.push(name)
    }
    return found
  }
}

/** The index that was given. */
export function accepted(result: object): number {
  assert.ok('index' in result && typeof result.index === 'number', JSON.stringify(result))
  return result.index
}

/** That it was refused with this code; gives the refusal. */
export function refused(result: object, code: string): Record<string, unknown> {
  assert.equal('refused' in result ? result.refused : result, code)
  return result as Record<string, unknown>
}

/** That the entries follow a position without a hole, and that their chain is right; gives the last position. */
export function assertChain(channel: string, entries: readonly Entry[], from?: Position): Position {
  let position = from ?? { index: 0, hash: chainStart(sha256, bytesOf(channel)), slot: 0 }
  for (const entry of entries) {
    const body =
      entry.kind === 'message'
        ? entry.ciphertext
        : entry.kind === 'commit'
          ? commitBody(entry.commit, entry.declaration)
          : leaveBody(entry.notice)
    const hash = chainNext(sha256, position.hash, {
      kind: entry.kind,
      sender: bytesOf(entry.sender),
      messageId: entry.kind === 'leave' ? new Uint8Array() : entry.messageId,
      bodyHash: sha256(body),
    })
    assert.equal(entry.index, position.index + 1)
    assert.equal(entry.slot, position.slot)
    assert.deepEqual(Buffer.from(entry.hash), Buffer.from(hash))
    position = { index: entry.index, hash, slot: entry.kind === 'commit' ? entry.slot + 1 : entry.slot }
  }
  return position
}
