/**
 * This agent's KeyPackages. Each is stored before it is handed out, and deleted once it was used. With an API key, some
 * are kept at the relay, so that others can add this agent while it is offline.
 */
import { StaticError, toHex } from '@static/protocol'
import type { KeyPackageRecord } from '../../ports.ts'
import { same } from '../bytes.ts'
import type { AgentContext } from './context.ts'

/** The number of KeyPackages that the relay holds for others. */
export const POOLED = 16
/** The limit of pooled KeyPackages, including those claimed but not used yet, and those that a restarted relay lost. */
const MOST_POOLED = 1024
/** Longer than the lifetime of any KeyPackage. */
const KEPT_MS = 90 * 24 * 60 * 60 * 1000

/** What KeyPackages ask of their agent. */
type Maker = Pick<AgentContext, 'engine' | 'key' | 'journal' | 'now'>

/** The KeyPackages that can still be used. */
export class KeyPackages {
  readonly #maker: Maker
  readonly #identity: Uint8Array
  readonly #known: Map<string, KeyPackageRecord>

  constructor(maker: Maker, identity: Uint8Array, known: readonly KeyPackageRecord[]) {
    this.#maker = maker
    this.#identity = identity
    this.#known = new Map(known.map((record) => [record.ref, record]))
    const before = maker.now() - KEPT_MS
    for (const { ref, createdAt } of known) if (createdAt < before) this.spend(ref)
  }

  /** Creates a KeyPackage. Resolves when it is on disk. */
  async make(pooled: boolean): Promise<KeyPackageRecord> {
    const { engine, key, journal } = this.#maker
    const now = this.#maker.now()
    const { keyPackage, privatePart, ref } = await engine.generateKeyPackage(this.#identity, key, now)
    const record = { ref: toHex(ref), keyPackage, privatePart, createdAt: now, pooled }
    this.#known.set(record.ref, record)
    journal.add({ type: 'putKeyPackage', record })
    if (pooled) this.#trim()
    await journal.written()
    return record
  }

  /**
   * Finds the KeyPackage that a Welcome was created for.
   *
   * @throws {StaticError} `invalid_welcome`
   */
  forWelcome(welcome: Uint8Array): KeyPackageRecord {
    const refs = this.#maker.engine.welcomeRefs(welcome)
    if (refs.length === 0) throw StaticError.of('invalid_welcome', `These ${welcome.length} bytes are not a Welcome.`)
    const found = refs.map((ref) => this.#known.get(toHex(ref))).find((record) => record !== undefined)
    if (found === undefined) {
      throw StaticError.of(
        'invalid_welcome',
        'The Welcome is not for a KeyPackage of this agent, or the KeyPackage was used before.',
      )
    }
    return found
  }

  /** Deletes the KeyPackage of a Welcome that will not be used. */
  discard(welcome: Uint8Array): void {
    for (const ref of this.#maker.engine.welcomeRefs(welcome)) if (this.#known.has(toHex(ref))) this.spend(toHex(ref))
  }

  /** Deletes the oldest beyond the limit, however many the relay claims to have handed out. */
  #trim(): void {
    const pooled = [...this.#known.values()].filter((record) => record.pooled)
    for (const { ref } of pooled.slice(0, Math.max(0, pooled.length - MOST_POOLED))) this.spend(ref)
  }

  /** Whether a Welcome is for a KeyPackage. */
  isFor(welcome: Uint8Array, keyPackage: Uint8Array): boolean {
    const refs = this.#maker.engine.welcomeRefs(welcome)
    return refs.some((ref) => {
      const known = this.#known.get(toHex(ref))
      return known !== undefined && same(known.keyPackage, keyPackage)
    })
  }

  /** Whether a KeyPackage can still be used. */
  has(keyPackage: Uint8Array): boolean {
    return [...this.#known.values()].some((record) => same(record.keyPackage, keyPackage))
  }

  /** Deletes a KeyPackage that will not be used. */
  forget(keyPackage: Uint8Array): void {
    for (const record of this.#known.values()) if (same(record.keyPackage, keyPackage)) this.spend(record.ref)
  }

  /** Deletes a used KeyPackage, so that it cannot be used again. */
  spend(ref: string): void {
    this.#known.get(ref)?.privatePart.fill(0)
    this.#known.delete(ref)
    this.#maker.journal.add({ type: 'dropKeyPackage', ref })
  }
}
