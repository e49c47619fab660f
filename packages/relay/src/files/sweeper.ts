/**
 * Deletes the bytes of files that have ended, then their records: a crash in between repeats the deletion. Once a day,
 * it looks for bytes that no record knows: those of a file that was forgotten while a part was on its way.
 */
import { filePartCount, MAX_FILE_BYTES } from '@static/protocol'
import type { DueFile, Store, Time } from '../ports.ts'

const EVERY_MS = 60_000
const SEARCH_MS = 86_400_000
/** Files deleted in one round. */
const MAX_DUE = 1000
/** Bytes that came lately belong to a file that is being sent, or soon will be deleted. */
const SETTLED_MS = 3600_000
const MAX_PARTS = filePartCount(MAX_FILE_BYTES)

/** What it needs of the bytes. */
export interface SweptParts {
  delete(files: readonly DueFile[]): Promise<void>
  list(after: string, before: Time): Promise<readonly string[]>
}

/** The options of the sweep. */
export interface SweeperOptions {
  readonly store: Pick<Store, 'run'>
  readonly parts: SweptParts
  readonly now: () => Time
  readonly failed: (error: unknown) => void
}

export class FileSweeper {
  readonly #options: SweeperOptions
  readonly #timers: NodeJS.Timeout[]
  #working: Promise<void> = Promise.resolve()

  constructor(options: SweeperOptions) {
    this.#options = options
    const run = (work: () => Promise<void>) => (): void => {
      this.#working = this.#working.then(work).catch(options.failed)
    }
    this.#timers = [
      setInterval(
        run(() => this.sweep()),
        EVERY_MS,
      ),
      setInterval(
        run(() => this.search()),
        SEARCH_MS,
      ),
    ]
    run(() => this.search())()
  }

  /** Deletes the files that have ended. */
  async sweep(): Promise<void> {
    const { store, parts, now } = this.#options
    for (;;) {
      const { files } = await store.run('dueFiles', { now: now(), limit: MAX_DUE })
      if (files.length === 0) return
      await parts.delete(files)
      await store.run('forgetFiles', { keys: files.map(({ key }) => key), now: now() })
      if (files.length < MAX_DUE) return
    }
  }

  /** Deletes bytes without a record. */
  async search(): Promise<void> {
    const { store, parts, now } = this.#options
    for (let after = ''; ;) {
      const keys = await parts.list(after, now() - SETTLED_MS)
      const last = keys.at(-1)
      if (last === undefined) return
      const known = new Set((await store.run('knownFiles', { keys })).keys)
      // Without a record, no one knows how many parts there were.
      const lost = keys.filter((key) => !known.has(key)).map((key) => ({ key, parts: MAX_PARTS }))
      if (lost.length > 0) await parts.delete(lost)
      after = last
    }
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await this.#working
  }
}
