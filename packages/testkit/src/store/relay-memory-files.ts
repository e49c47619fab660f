/** Files as a map. */
import type { Account, AgentId, Channel, DueFile, FileRecord, FileRoom, FileRows, Time } from '@static/relay/internal'
import { filePartCount, storedFileBytes } from '@static/protocol'
import { allChannels, type MemoryState } from './relay-memory-state.ts'

/** All files, in memory. */
export class MemoryFileRows implements FileRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  get(key: string): FileRecord | undefined {
    return this.#state.files.get(key)
  }

  add(file: FileRecord): void {
    this.#state.files.set(file.key, file)
  }

  change(file: FileRecord): void {
    this.#state.files.set(file.key, file)
  }

  room({ number }: Pick<Channel, 'number'>): FileRoom {
    const files = this.#all().filter(({ channel }) => channel === number)
    return { files: files.length, bytes: sum(files), guestBytes: sum(files.filter(({ guest }) => guest)) }
  }

  countOfGuests({ number }: Pick<Channel, 'number'>): number {
    return this.#all().filter(({ channel, guest }) => guest && channel === number).length
  }

  bytesOf({ id, mode }: Account): number {
    const own = allChannels(this.#state).filter(({ account }) => account.id === id && account.mode === mode)
    return own.reduce((total, channel) => total + this.room(channel).bytes, 0)
  }

  countOpen(agent: AgentId, now: Time): number {
    return this.#all().filter((file) => file.sender === agent && file.index === undefined && file.expiresAt > now)
      .length
  }

  endAll({ number }: Pick<Channel, 'number'>): void {
    for (const file of this.#all()) if (file.channel === number) this.change({ ...file, expiresAt: 0 })
  }

  due(before: Time, limit: number): readonly DueFile[] {
    const order = (one: FileRecord, other: FileRecord): number =>
      one.expiresAt - other.expiresAt || (one.key < other.key ? -1 : 1)
    const due = this.#all().filter(({ expiresAt }) => expiresAt <= before)
    return due
      .sort(order)
      .slice(0, limit)
      .map(({ key, size }) => ({ key, parts: filePartCount(size) }))
  }

  forget(keys: readonly string[], before: Time): void {
    for (const key of keys) {
      const file = this.get(key)
      if (file && file.expiresAt <= before) this.#state.files.delete(key)
    }
  }

  known(keys: readonly string[]): readonly string[] {
    return keys.filter((key) => this.#state.files.has(key))
  }

  #all(): FileRecord[] {
    return [...this.#state.files.values()]
  }
}

function sum(files: readonly FileRecord[]): number {
  return files.reduce((total, { size }) => total + storedFileBytes(size), 0)
}
