/**
 * This agent's KeyPackages. Each is stored before it is handed out, and deleted once it is used. With an API key, some
 * are kept at the relay, so that others can add this agent while it is offline.
 */
import { StaticError, toHex } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { KeyPackageRecord } from '../ports/index.ts'
import type { AgentContext } from './context.ts'

/** The number of KeyPackages that the relay holds for others. */
export const POOLED = 16
/**
 * The limit of pooled KeyPackages, including those claimed without a Welcome so far, and those that a restarted relay
 * lost.
 */
const MOST_POOLED = 1024
/** Longer than the lifetime of any KeyPackage. */
const KEPT_MS = 90 * 24 * 60 * 60 * 1000

/** The context that KeyPackages need from their agent. */
type Maker = Pick<AgentContext, 'engine' | 'key' | 'journal' | 'now'>

/** The KeyPackages that can still be used. */
export class KeyPackages {
  readonly #maker: Maker
  readonly #identity: Uint8Array
  readonly #known: Map<string, KeyPackageRecord>
  /** The ref of the KeyPackage, by Welcome. */
  readonly #refs = new WeakMap<Uint8Array, string>()

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
    const found = this.find(welcome)
    if (found) return found
    throw StaticError.of(
      'invalid_welcome',
      `These ${welcome.length} bytes are not a Welcome for a KeyPackage of this agent, or the KeyPackage was already used.`,
    )
  }

  /** The KeyPackage that a Welcome was created for, if it can still be used. Parses the same bytes only once. */
  find(welcome: Uint8Array): KeyPackageRecord | undefined {
    const ref = this.#refs.get(welcome) ?? this.named(welcome)[0]?.ref
    if (ref === undefined) return undefined
    this.#refs.set(welcome, ref)
    return this.#known.get(ref)
  }

  /** All usable KeyPackages that a Welcome names. An honest one names one. */
  named(welcome: Uint8Array): readonly KeyPackageRecord[] {
    const refs = new Set(this.#maker.engine.welcomeRefs(welcome).map(toHex))
    return [...refs].flatMap((ref) => this.#known.get(ref) ?? [])
  }

  /** A Welcome for this KeyPackage is kept, so the KeyPackage is kept as well, however many others are created. */
  reserve(ref: string): void {
    const found = this.#known.get(ref)
    if (!found?.pooled) return
    const record = { ...found, pooled: false }
    this.#known.set(ref, record)
    this.#maker.journal.add({ type: 'putKeyPackage', record })
  }

  /** Deletes the KeyPackage of a Welcome that will not be used. */
  discard(welcome: Uint8Array): void {
    for (const { ref } of this.named(welcome)) this.spend(ref)
  }

  /** Deletes the oldest beyond the limit, however many the relay claims to have handed out. */
  #trim(): void {
    const pooled = [...this.#known.values()].filter((record) => record.pooled)
    for (const { ref } of pooled.slice(0, Math.max(0, pooled.length - MOST_POOLED))) this.spend(ref)
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
