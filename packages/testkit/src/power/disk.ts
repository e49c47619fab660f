/**
 * A disk that forgets what was not synced. A write is on it for certain once its file was synced; a new, renamed or
 * removed name, once its folder was. Before that, a power cut keeps any part of it: sectors of any write, and the first
 * few changes of names.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { DiskEvent } from './recording.ts'

/** The unit that a disk writes as a whole. */
const SECTOR = 512

/** The content of a file: the certain part, and changes since then. */
interface Body {
  certain: Buffer
  pending: ((content: Buffer, keep: () => boolean) => Buffer)[]
}

/** Files and the changes that a disk has not synced. */
export class LossyDisk {
  /** Names that are certain. */
  readonly #certain = new Map<string, Body>()
  /** Names as programs see them. */
  readonly #seen = new Map<string, Body>()
  #names: { readonly folders: readonly string[]; readonly apply: (names: Map<string, Body>) => void }[] = []

  /** A disk that has the files of a folder, as if they were in another. */
  static from(folder: string, place: string): LossyDisk {
    const disk = new LossyDisk()
    for (const name of readdirSync(folder)) {
      const body: Body = { certain: readFileSync(join(folder, name)), pending: [] }
      disk.#certain.set(join(place, name), body)
      disk.#seen.set(join(place, name), body)
    }
    return disk
  }

  /** Applies the effect of a program's call. */
  apply(event: DiskEvent): void {
    switch (event.type) {
      case 'create': {
        if (this.#seen.has(event.path)) return
        const body: Body = { certain: Buffer.alloc(0), pending: [] }
        return this.#rename([dirname(event.path)], (names) => names.set(event.path, body))
      }
      case 'remove':
        return this.#rename([dirname(event.path)], (names) => names.delete(event.path))
      case 'link':
      case 'rename': {
        const body = this.#seen.get(event.path)
        if (!body) return
        return this.#rename([dirname(event.path), dirname(event.to)], (names) => {
          if (event.type === 'rename') names.delete(event.path)
          names.set(event.to, body)
        })
      }
      case 'truncated':
        return this.#change(event.path, (content, keep) => (keep() ? Buffer.alloc(0) : content))
      case 'resize':
        return this.#change(event.path, (content, keep) => (keep() ? resized(content, event.size) : content))
      case 'write':
        return this.#change(event.path, (content, keep) => written(content, event.at, event.bytes, keep))
      case 'sync':
        return this.#sync(event.path)
      case 'said':
    }
  }

  /** Writes the files as a power cut now would leave them. `keep` decides about each part that is not certain. */
  cut(keep: () => boolean): (folder: (path: string) => string) => void {
    const names = new Map(this.#certain)
    for (const { apply } of this.#names) {
      if (!keep()) break
      apply(names)
    }
    const files = [...names].map(([path, { certain, pending }]) => {
      return { path, content: pending.reduce((content, change) => change(content, keep), certain) }
    })
    return (place) => {
      for (const { path, content } of files) {
        mkdirSync(dirname(place(path)), { recursive: true, mode: 0o700 })
        writeFileSync(place(path), content, { mode: 0o600 })
      }
    }
  }

  #rename(folders: readonly string[], apply: (names: Map<string, Body>) => void): void {
    apply(this.#seen)
    this.#names.push({ folders, apply })
  }

  #change(path: string, change: Body['pending'][number]): void {
    this.#seen.get(path)?.pending.push(change)
  }

  #sync(path: string): void {
    const body = this.#seen.get(path)
    if (body) {
      body.certain = body.pending.reduce((content, change) => change(content, () => true), body.certain)
      body.pending = []
      // As journaling file systems do: a file that was synced has a name.
      if (!this.#certain.has(path)) this.#settle((folders) => folders.includes(dirname(path)))
      return
    }
    this.#settle((folders) => folders.includes(path))
  }

  /** Makes changes of names certain, with all before them: journals keep their order. */
  #settle(isSynced: (folders: readonly string[]) => boolean): void {
    const last = this.#names.findLastIndex(({ folders }) => isSynced(folders))
    for (const { apply } of this.#names.splice(0, last + 1)) apply(this.#certain)
  }
}

/** Negative sizes only ever enlarge. */
function resized(content: Buffer, size: number): Buffer {
  const wanted = size < 0 ? Math.max(content.length, -size) : size
  return wanted <= content.length
    ? content.subarray(0, wanted)
    : Buffer.concat([content, Buffer.alloc(wanted - content.length)])
}

function written(content: Buffer, at: number, bytes: Buffer, keep: () => boolean): Buffer {
  const result = Buffer.from(resized(content, -(at + bytes.length)))
  for (let place = at; place < at + bytes.length; place = Math.floor(place / SECTOR + 1) * SECTOR) {
    const end = Math.min(Math.floor(place / SECTOR + 1) * SECTOR, at + bytes.length)
    if (keep()) bytes.copy(result, place, place - at, end - at)
  }
  return result
}
