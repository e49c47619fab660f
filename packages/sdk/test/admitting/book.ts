/**
 * What a test knows of the invites of a channel, and what it sees the owner write: whoever takes a use, takes it of an
 * invite that is good at that moment, and those who came in by one are never more than it allows.
 */
import assert from 'node:assert/strict'
import type { AgentId, AgentStore, Change, JoinerRecord } from '../../src/ports/index.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { decodeToken } from '../../src/admitting/token.ts'

/** An invite, as the test has asked for it. */
export interface Page {
  readonly token: string
  readonly maxUses: number
  readonly expiresAt: number
  /** `begun`: nobody knows; `done`: nobody may come in by it any more. */
  revoked: 'no' | 'begun' | 'done'
  /** Uses that are taken and not given back. */
  taken: number
}

/** The owner looks at the clock before it writes; on a busy machine, seconds before. */
const LOOKED_MS = 5000

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** The invites of one channel. */
export class Book {
  readonly #pages = new Map<string, Page>()
  readonly #joiners = new Map<AgentId, JoinerRecord>()
  readonly #now: () => number
  readonly #wrong: string[] = []
  /** How many uses were taken, and given back. */
  readonly counts = { taken: 0, returned: 0 }

  constructor(now: () => number) {
    this.#now = now
  }

  get pages(): readonly Page[] {
    return [...this.#pages.values()]
  }

  /** The owner has made an invite. */
  add(token: string, maxUses: number): void {
    const { secret, expiresAt } = decodeToken(token)
    this.#pages.set(hex(inviteKeys(secret).inviteId), { token, maxUses, expiresAt, revoked: 'no', taken: 0 })
  }

  /** Whether somebody may come in by an invite now. */
  isGood({ revoked, expiresAt, taken, maxUses }: Page): boolean {
    return revoked === 'no' && expiresAt > this.#now() && taken < maxUses
  }

  /** The invite that an agent came by. */
  pageOf(agent: AgentId): Page | undefined {
    return this.#pages.get(this.#joiners.get(agent)?.invite ?? '')
  }

  /** What the owner holds of one who has come, or is about to come. */
  stateOf(agent: AgentId): JoinerRecord['state'] | undefined {
    return this.#joiners.get(agent)?.state
  }

  /** The owner's database, watched. */
  watch(store: AgentStore): AgentStore {
    return {
      load: () => store.load(),
      inbox: (id, after, limit) => store.inbox(id, after, limit),
      poison: (id) => store.poison(id),
      requests: (id, after, limit) => store.requests(id, after, limit),
      answers: (id) => store.answers(id),
      fileDigests: (id, index) => store.fileDigests(id, index),
      uploadParts: (id, fileId) => store.uploadParts(id, fileId),
      kept: (id, before, limit) => store.kept(id, before, limit),
      keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
      write: (changes) => {
        store.write(changes)
        for (const change of changes) this.#see(change)
      },
      onFailure: (listener) => store.onFailure(listener),
      checkpoint: () => store.checkpoint(),
      close: () => store.close(),
    }
  }

  /** Nothing was seen that must not be. */
  check(): void {
    assert.deepEqual(this.#wrong, [])
  }

  #see(change: Change): void {
    if (change.type === 'dropJoiner') return this.#giveBack(change.agent)
    if (change.type !== 'putJoiner') return
    const { record } = change
    const before = this.#joiners.get(record.agent)
    this.#joiners.set(record.agent, record)
    const page = this.#pages.get(record.invite)
    if (!page) return void this.#wrong.push(`Agent ${record.agent} has come by a token that nobody has.`)
    if (!before || hex(before.nonce) !== hex(record.nonce)) this.#take(page, record)
  }

  #giveBack(agent: AgentId): void {
    const page = this.pageOf(agent)
    if (!page) return void this.#wrong.push(`Agent ${agent} has given back what it did not take.`)
    this.#joiners.delete(agent)
    page.taken--
    this.counts.returned++
  }

  #take(page: Page, { agent, state }: JoinerRecord): void {
    const who = `Agent ${agent}`
    if (state !== 'taken') this.#wrong.push(`${who} is ${state} without having taken a use.`)
    if (page.revoked === 'done') this.#wrong.push(`${who} has come by an invite that was revoked.`)
    if (page.expiresAt <= this.#now() - LOOKED_MS) this.#wrong.push(`${who} has come by an invite that had expired.`)
    if (page.taken >= page.maxUses) this.#wrong.push(`${who} has come by an invite that was used up.`)
    page.taken++
    this.counts.taken++
  }
}
