/** The history of an agent that does not run: read, erased, turned on and off without a connection. */
import { StaticError, toHex } from '@static/protocol'
import { Journal } from '../channel/journal.ts'
import { type HistoryOption, Keeping } from '../channel/keeping/keeping.ts'
import { KeptLog } from '../channel/keeping/kept-log.ts'
import { agentIdOf } from '../mls/index.ts'
import type { AgentStore } from '../ports/index.ts'
import { listKeySlots } from '../store/keys/slots.ts'
import type { KeySource } from '../store/keys/sources.ts'
import { openAgentStore } from '../store/sqlcipher.ts'
import { type HistoryOptions, pageOf } from './options/channel-options.ts'
import { type HistoryMessage, historyMessageOf } from './received/history-message.ts'
import { checkHistory, checkIdentity } from './settings.ts'

/** The history of an agent, opened without a connection. */
export interface AgentHistory {
  /** For how many days messages are kept; undefined if none are. */
  readonly days: number | undefined
  /** Changes that. `false` keeps none and erases what is kept. */
  keep(rule: HistoryOption): Promise<void>
  /**
   * Like `Channel.history`.
   *
   * @throws {StaticError} `not_found` if the agent has no channel of this name, `invalid_request`
   */
  page(channel: string, options?: HistoryOptions): readonly HistoryMessage[]
  /** Deletes the history of one channel, or of all. */
  erase(channel?: string): Promise<void>
  close(): void
}

/**
 * Opens the history of an agent without connecting it. The agent must not be running.
 *
 * @throws {StaticError} `not_found` if there is no agent, `store_locked` if it is running, `store_key_wrong`,
 *   `store_corrupt`, `store_rolled_back`, `invalid_request` if the directory belongs to another identity
 */
export async function openAgentHistory(
  directory: string,
  identity: Uint8Array | string,
  key: KeySource = { type: 'file' },
): Promise<AgentHistory> {
  // A new agent must not be created.
  listKeySlots(directory)
  const makeIdentity = (): never => {
    throw StaticError.of('not_found', `The agent in ${directory} was never started.`)
  }
  const store = await openAgentStore({ directory, identity: checkIdentity(identity), makeIdentity, key })
  try {
    const history = new StoredHistory(store)
    await history.ready
    return history
  } catch (error) {
    store.close()
    throw error
  }
}

class StoredHistory implements AgentHistory {
  readonly #store: AgentStore
  readonly #journal: Journal
  readonly #agentId: string
  readonly #name: Uint8Array
  /** By name. */
  readonly #logs: ReadonlyMap<string, KeptLog>
  #keeping: Keeping

  constructor(store: AgentStore) {
    const { identity, channels, keepingDays } = store.load()
    this.#store = store
    // Whoever waits for the write gets the error.
    this.#journal = new Journal(store, () => {})
    this.#agentId = toHex(agentIdOf(identity.publicKey))
    this.#name = identity.identity
    const joined = channels.filter(({ record }) => record.state !== 'offered')
    this.#logs = new Map(joined.map(({ record: { name, id } }) => [name, new KeptLog(this.#journal, id)]))
    this.#keeping = this.#follow(keepingDays, undefined)
  }

  get ready(): Promise<void> {
    return this.#keeping.ready
  }

  get days(): number | undefined {
    return this.#keeping.days
  }

  async keep(rule: HistoryOption): Promise<void> {
    this.#keeping = this.#follow(this.days, checkHistory(rule))
    await this.#keeping.ready
    await this.#journal.written()
  }

  page(channel: string, options: HistoryOptions = {}): readonly HistoryMessage[] {
    const { before, limit } = pageOf(options)
    const log = this.#logOf(channel)
    const { since } = this.#keeping
    if (since === undefined) return []
    return log.page(before, limit, since).map((record) => historyMessageOf(record, this.#agentId))
  }

  async erase(channel?: string): Promise<void> {
    if (channel === undefined) await this.#keeping.eraseAll()
    else await this.#keeping.erase(this.#logOf(channel))
  }

  close(): void {
    this.#store.close()
  }

  #follow(stored: number | undefined, wanted: HistoryOption | undefined): Keeping {
    const context = { identity: this.#name, journal: this.#journal, now: Date.now, all: () => this.#logs.values() }
    return new Keeping(context, stored, wanted)
  }

  #logOf(channel: string): KeptLog {
    const log = this.#logs.get(channel)
    if (log) return log
    throw StaticError.of('not_found', `This agent is not a member of channel ${channel}.`)
  }
}
