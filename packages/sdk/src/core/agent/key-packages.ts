/**
 * This agent's KeyPackages: each is stored before anybody gets it and gone once it was used. With an API key a few are
 * kept at the relay, so that others can add this agent while it is away.
 */
import { StaticError, toHex } from '@static/protocol'
import type { KeyPackageRecord } from '../../ports.ts'
import { same } from '../bytes.ts'
import type { AgentContext } from './context.ts'

/** How many the relay holds for others. */
export const POOLED = 16
/** Those that were taken and not yet used, and those that a restarted relay has forgotten, count as well. */
const MOST_POOLED = 1024
/** Longer than any of them lasts. */
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

  /** Makes one; it is on disk when this is fulfilled. */
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
   * The one that a Welcome was made for.
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

  /** Nobody will join by this Welcome: what it was made for is gone, too. */
  discard(welcome: Uint8Array): void {
    for (const ref of this.#maker.engine.welcomeRefs(welcome)) if (this.#known.has(toHex(ref))) this.spend(toHex(ref))
  }

  /** Whatever the relay says that it has given away, no more are kept than can be in use. */
  #trim(): void {
    const pooled = [...this.#known.values()].filter((record) => record.pooled)
    for (const { ref } of pooled.slice(0, Math.max(0, pooled.length - MOST_POOLED))) this.spend(ref)
  }

  /** Whether one can still be used. */
  has(keyPackage: Uint8Array): boolean {
    return [...this.#known.values()].some((record) => same(record.keyPackage, keyPackage))
  }

  /** Nobody will use it any more. */
  forget(keyPackage: Uint8Array): void {
    for (const record of this.#known.values()) if (same(record.keyPackage, keyPackage)) this.spend(record.ref)
  }

  /** It was used: nobody can use it again. */
  spend(ref: string): void {
    this.#known.get(ref)?.privatePart.fill(0)
    this.#known.delete(ref)
    this.#maker.journal.add({ type: 'dropKeyPackage', ref })
  }
}
