/**
 * Token signing keys (SPEC.md, "Tokens"). A key is published 24 hours before its first signature, so
 * that every verifier has it in time, and stays published for 2 hours after its last one. Nodes agree
 * through the database: the next generation is made once, whoever comes first.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK } from 'jose'
import { StaticError, TOKEN_ALGORITHM, type TokenClaims } from '@static/protocol'
import { ed25519, type Signer, signatureKeyPair } from '@static/node/ed25519'
import type { Clock, SigningKeyStore } from '../ports.ts'
import { seal, unseal } from './seal.ts'

const HOUR = 3600_000
const PUBLISHED_BEFORE = 24 * HOUR
const PUBLISHED_AFTER = 2 * HOUR

/** A public key as the JWKS shows it. */
export interface PublishedKey {
  readonly kty: 'OKP'
  readonly crv: 'Ed25519'
  readonly x: string
  readonly kid: string
  readonly alg: typeof TOKEN_ALGORITHM
  readonly use: 'sig'
}

interface SigningKey {
  readonly generation: number
  readonly kid: string
  readonly sign: Signer
  readonly published: PublishedKey
  /** The protected header of the tokens that it signs, encoded. */
  readonly header: string
  readonly activeFrom: number
}

/** What the key ring needs. */
export interface KeyRingOptions {
  readonly store: SigningKeyStore
  readonly masterKey: Uint8Array
  readonly now: Clock
  /** For how long one key signs. */
  readonly lifetime: number
}

/** The signing keys of a deployment, as this node knows them. */
export class KeyRing {
  readonly #options: KeyRingOptions
  #keys: readonly SigningKey[] = []

  private constructor(options: KeyRingOptions) {
    this.#options = options
  }

  /** Opens the ring and makes the first key if there is none. */
  static async open(options: KeyRingOptions): Promise<KeyRing> {
    const ring = new KeyRing(options)
    await ring.refresh()
    return ring
  }

  /** Reads the keys again, makes the next one when it is time and deletes what is out of use. Called every minute. */
  async refresh(): Promise<void> {
    const { store, now, lifetime } = this.#options
    await this.#read()
    // A key that a node with a wrong clock made for a far future is nobody's successor.
    const newest = this.#keys.findLast(({ activeFrom }) => activeFrom <= now() + lifetime + PUBLISHED_BEFORE)
    const next = Math.max(0, ...this.#keys.map(({ generation }) => generation)) + 1
    if (!newest) {
      await this.#make(next, now())
      await this.#read()
    } else if (now() >= newest.activeFrom + lifetime - PUBLISHED_BEFORE) {
      // A whole notice period from now, also when the service was off on the day.
      await this.#make(next, Math.max(now() + PUBLISHED_BEFORE, newest.activeFrom + lifetime))
      await this.#read()
    }
    const oldest = this.#keys.find((_, at) => !this.#retired(at))
    if (oldest && oldest !== this.#keys[0]) await store.removeBefore(oldest.generation)
  }

  /**
   * Signs a token with the key whose turn it is (RFC 7515, compact form). In this thread: the JWT library's way through
   * Web Crypto costs several times as much, most of it in changing threads.
   */
  sign(claims: TokenClaims): string {
    const now = this.#options.now()
    const key = this.#keys.findLast(({ activeFrom }) => activeFrom <= now) ?? this.#keys[0]
    if (!key) throw StaticError.of('unavailable', 'There is no signing key yet.', { retryAfter: 1 })
    const signed = `${key.header}.${base64url(claims)}`
    return `${signed}.${key.sign(Buffer.from(signed)).toString('base64url')}`
  }

  /** The keys that verifiers need now: the current one, its successor, and its predecessor for a while. */
  jwks(): { readonly keys: readonly PublishedKey[] } {
    return { keys: this.#keys.filter((_, at) => !this.#retired(at)).map(({ published }) => published) }
  }

  /** Whether every token that the key signed has run out. */
  #retired(at: number): boolean {
    const successor = this.#keys[at + 1]
    return successor !== undefined && this.#options.now() >= successor.activeFrom + PUBLISHED_AFTER
  }

  async #read(): Promise<void> {
    const known = new Map(this.#keys.map((key) => [key.kid, key]))
    const rows = await this.#options.store.all()
    const keys = await Promise.all(rows.map(async (row) => known.get(row.kid) ?? (await this.#unsealed(row))))
    this.#keys = keys.sort((a, b) => a.activeFrom - b.activeFrom)
  }

  /** Opens a row. The public key is derived from the private one: what a row says of itself is not believed. */
  async #unsealed(row: { generation: number; kid: string; sealed: string; activeFrom: number }): Promise<SigningKey> {
    const der = unseal(this.#options.masterKey, row.sealed, purpose(row.kid))
    const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    der.fill(0)
    const published = await publish(key)
    if (published.kid !== row.kid)
      throw StaticError.of('store_corrupt', `The signing key ${row.kid} is not what its id says.`)
    const { generation, kid, activeFrom } = row
    return {
      generation,
      kid,
      sign: ed25519.signer(signatureKeyPair(key)),
      published,
      activeFrom,
      header: base64url({ alg: TOKEN_ALGORITHM, kid, typ: 'JWT' }),
    }
  }

  async #make(generation: number, activeFrom: number): Promise<void> {
    const { privateKey } = generateKeyPairSync('ed25519')
    const { kid } = await publish(privateKey)
    const der = privateKey.export({ format: 'der', type: 'pkcs8' })
    const sealed = seal(this.#options.masterKey, der, purpose(kid))
    der.fill(0)
    await this.#options.store.add({ generation, kid, sealed, createdAt: this.#options.now(), activeFrom })
  }
}

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

function purpose(kid: string): string {
  return `static signing key\n${TOKEN_ALGORITHM}\n${kid}`
}

async function publish(key: KeyObject): Promise<PublishedKey> {
  const { x } = await exportJWK(createPublicKey(key))
  if (x === undefined) throw new Error('An Ed25519 key has an x.')
  const kid = await calculateJwkThumbprint({ kty: 'OKP', crv: 'Ed25519', x })
  return { kty: 'OKP', crv: 'Ed25519', x, kid, alg: TOKEN_ALGORITHM, use: 'sig' }
}
