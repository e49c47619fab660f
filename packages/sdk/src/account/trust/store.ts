/**
 * The trust list of an account and what is known of the keys of its roots, as files (SPEC.md, 7.3):
 *
 *     trust/roots.json        the roots; people change it, by commands
 *     trust/keys-….json       the keys of one root; each process that fetches them changes it
 *
 * Each file is replaced as a whole and is durable before anything counts. Processes change them one after the other
 * (`trust/lock`): what one has learned, such as the ids of a repository, is not lost to another.
 */
import { rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sha256 } from '#platform/crypto'
import { makeDirectories, readPrivateFile, replaceFile, sweepDirectory } from '@static/node/files'
import { StaticError, toHex } from '@static/protocol'
import { utf8 } from '../../platform/bytes.ts'
import { isRecord } from '../../proofs/json.ts'
import { type KeyState, NO_KEYS } from '../../proofs/key-state.ts'
import { parseRoot, type Root } from '../../proofs/roots.ts'
import { alone } from './lock.ts'

/** A root on the list. */
export interface ListedRoot {
  readonly root: Root
  /** The identities of the agents that use it; undefined: all agents of the account. */
  readonly agents?: readonly string[]
}

const LIST = 'roots.json'
const LOCK = 'lock'
const MOST_ROOTS = 256
const HASH_DIGITS = 32

/** The files of a trust list. Nothing is kept in memory. */
export class TrustStore {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = directory
  }

  /**
   * The roots on the list.
   *
   * @throws {StaticError} `store_permissions` if others can access the file, `invalid_request` if it is damaged
   */
  list(): readonly ListedRoot[] {
    const path = join(this.#directory, LIST)
    const bytes = readPrivateFile(path)
    if (bytes === undefined) return []
    try {
      const { roots } = JSON.parse(bytes.toString()) as { readonly roots: readonly ListedEntry[] }
      return roots.map(({ root, agents, ...how }) => ({ root: parseRoot(root, how), ...(agents && { agents }) }))
    } catch (cause) {
      throw StaticError.of(
        'invalid_request',
        `${path} is not a list of roots. Repair it, or delete it and add the roots again.`,
        { cause },
      )
    }
  }

  /**
   * Changes the list.
   *
   * @throws {StaticError} as `list`; `invalid_request` if there would be too many roots
   */
  change(change: (list: readonly ListedRoot[]) => readonly ListedRoot[]): void {
    this.#alone(() => this.#write(change(this.list())))
  }

  /** What is known of the keys of a root. */
  load(root: Root): KeyState {
    try {
      return this.#known(root)
    } catch (error) {
      // Not as if nothing were known: whoever damages the file would choose the keys.
      return { ...NO_KEYS, refused: StaticError.from(error).message }
    }
  }

  /**
   * Changes what is known of the keys of a root.
   *
   * @throws {StaticError} if the file is damaged: a fetch must not put keys in the place of those that were known
   */
  update(root: Root, change: (state: KeyState) => KeyState): void {
    this.#alone(() => this.#replace(keysFile(root), { root: root.text, ...change(this.#known(root)) }))
  }

  /** Forgets the keys of a root. */
  forget(root: Root): void {
    rmSync(join(this.#directory, keysFile(root)), { force: true })
  }

  /** Another text after each change by any process. */
  version(): string {
    // Replacing a file changes the directory, and gives the list another inode.
    const directory = statSync(this.#directory, { bigint: true, throwIfNoEntry: false })
    const list = statSync(join(this.#directory, LIST), { throwIfNoEntry: false })
    return `${directory?.mtimeNs} ${list?.ino}`
  }

  #write(list: readonly ListedRoot[]): void {
    if (list.length > MOST_ROOTS) {
      throw StaticError.of(
        'invalid_request',
        `There are already ${MOST_ROOTS} roots. Remove one with \`static trust remove\`.`,
      )
    }
    const roots = list.map(({ root: { text, keys, pin }, agents }): ListedEntry => {
      return { root: text, ...(keys !== undefined && { keys }), ...(pin && { pin }), ...(agents && { agents }) }
    })
    this.#replace(LIST, { version: 1, roots })
  }

  #known(root: Root): KeyState {
    const name = keysFile(root)
    try {
      const bytes = readPrivateFile(join(this.#directory, name))
      return bytes === undefined ? NO_KEYS : keyState(JSON.parse(bytes.toString()))
    } catch (cause) {
      if (cause instanceof StaticError) throw cause
      throw StaticError.of('invalid_request', `${name} is damaged. Remove the root and add it again.`, { cause })
    }
  }

  #alone(change: () => void): void {
    makeDirectories(this.#directory)
    alone(join(this.#directory, LOCK), change)
  }

  #replace(name: string, content: object): void {
    sweepDirectory(this.#directory)
    replaceFile(join(this.#directory, name), `${JSON.stringify(content, null, 1)}\n`, 0o600)
  }
}

/** A root as it is in the file. */
interface ListedEntry extends Pick<Root, 'keys' | 'pin'> {
  readonly root: string
  readonly agents?: readonly string[]
}

/**
 * By hash, because roots contain characters that file names cannot have. What one agent of the account reads from a file
 * or a pinned address is not what another one fetches from the internet.
 */
function keysFile({ text, keys, pin }: Root): string {
  const isPublic = keys === undefined && pin === undefined
  const way = isPublic ? '' : `\n${JSON.stringify([keys ?? null, pin?.address ?? null, pin?.ca ?? null])}`
  return `keys-${toHex(sha256(utf8(text + way))).slice(0, HASH_DIGITS)}.json`
}

function keyState(json: unknown): KeyState {
  if (!isRecord(json)) throw new TypeError('not an object')
  const { root: _root, ...state } = json
  const times = [state['renewedAt'], state['triedAt'], state['addedAt'], state['seenAt']]
  const sets = [state['accepted'], state['waiting']].filter((set) => set !== undefined)
  if (!times.every((time) => typeof time === 'number') || !isRecord(state['ids']))
    throw new TypeError('no times or ids')
  const isSet = (set: unknown): boolean =>
    isRecord(set) && Array.isArray(set['keys']) && Array.isArray(set['revoked']) && typeof set['notBefore'] === 'number'
  if (!sets.every(isSet)) throw new TypeError('no sets of keys')
  return state as unknown as KeyState
}
