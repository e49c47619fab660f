/**
 * Token signing keys (SPEC.md, "Tokens"). A key is published 24 hours before its first signature, so
 * that every verifier has it in time, and stays published for 2 hours after its last one. Nodes agree
 * through the database: the first node creates the next generation, the others use it.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint } from 'jose/jwk/thumbprint'
import { exportJWK } from 'jose/key/export'
import { StaticError, TOKEN_ALGORITHM, type TokenClaims } from '@static/protocol'
import { ed25519, type Signer, signatureKeyPair } from '@static/node/ed25519'
import type { Clock, SigningKeyStore } from '../ports.ts'
import { seal, unseal } from './seal.ts'

const HOUR = 3600_000
const PUBLISHED_BEFORE = 24 * HOUR
const PUBLISHED_AFTER = 2 * HOUR
/** More damaged rows in a row than this stop the rotation. */
const MOST_DAMAGED = 16

/** A public key in the form of the JWKS. */
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
  /** The encoded protected header of the tokens signed with this key. */
  readonly header: string
  readonly activeFrom: number
}

export interface KeyRingOptions {
  readonly store: SigningKeyStore
  readonly masterKey: Uint8Array
  readonly now: Clock
  /** How long a key signs tokens, in milliseconds. */
  readonly lifetime: number
}

/** The signing keys of a deployment, as last read by this node. */
export class KeyRing {
  readonly #options: KeyRingOptions
  #keys: readonly SigningKey[] = []

  private constructor(options: KeyRingOptions) {
    this.#options = options
  }

  /** Opens the ring and creates the first key if there is none. */
  static async open(options: KeyRingOptions): Promise<KeyRing> {
    const ring = new KeyRing(options)
    await ring.refresh()
    return ring
  }

  /** Reads the keys again, creates the next one when it is due and deletes old ones. Called every minute. */
  async refresh(): Promise<void> {
    const { store, now, lifetime } = this.#options
    await this.#read()
    // Ignore a key for the far future, created by a node with a wrong clock.
    const newest = this.#keys.findLast(({ activeFrom }) => activeFrom <= now() + lifetime + PUBLISHED_BEFORE)
    const next = Math.max(0, ...this.#keys.map(({ generation }) => generation)) + 1
    if (!newest) {
      await this.#make(next, now())
      await this.#read()
    } else if (now() >= newest.activeFrom + lifetime - PUBLISHED_BEFORE) {
      // A full notice period from now, even if the service was down when the key was due.
      await this.#make(next, Math.max(now() + PUBLISHED_BEFORE, newest.activeFrom + lifetime))
      await this.#read()
    }
    const oldest = this.#keys.find((_, at) => !this.#retired(at))
    if (oldest && oldest !== this.#keys[0]) await store.removeBefore(oldest.generation)
  }

  /**
   * Signs a token with the current key (RFC 7515, compact form). Runs in this thread, because the JWT library uses Web
   * Crypto, which costs several times as much, mostly for switching threads.
   */
  sign(claims: TokenClaims): string {
    const now = this.#options.now()
    const key = this.#keys.findLast(({ activeFrom }) => activeFrom <= now) ?? this.#keys[0]
    if (!key) throw StaticError.of('unavailable', 'No signing key is active yet. Retry in 1 s.', { retryAfter: 1 })
    const signed = `${key.header}.${base64url(claims)}`
    return `${signed}.${key.sign(Buffer.from(signed)).toString('base64url')}`
  }

  /** The keys that verifiers need: the current one, its successor, and its predecessor until its tokens expire. */
  jwks(): { readonly keys: readonly PublishedKey[] } {
    return { keys: this.#keys.filter((_, at) => !this.#retired(at)).map(({ published }) => published) }
  }

  /** Whether every token signed with the key has expired. */
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

  /** Opens a row. The public key is derived from the private key, because the row itself is not trusted. */
  async #unsealed(row: { generation: number; kid: string; sealed: string; activeFrom: number }): Promise<SigningKey> {
    const der = unseal(this.#options.masterKey, row.sealed, purpose(row.kid))
    const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    der.fill(0)
    const published = await publish(key)
    if (published.kid !== row.kid)
      throw StaticError.of('store_corrupt', `The signing key ${row.kid} does not match its id.`)
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

  /**
   * Creates the next key, unless another node does. A damaged row keeps its generation, and the next ones are tried.
   */
  async #make(next: number, activeFrom: number): Promise<void> {
    const { privateKey } = generateKeyPairSync('ed25519')
    const { kid } = await publish(privateKey)
    const der = privateKey.export({ format: 'der', type: 'pkcs8' })
    const sealed = seal(this.#options.masterKey, der, purpose(kid))
    der.fill(0)
    const { store, now } = this.#options
    for (let generation = next; generation < next + MOST_DAMAGED; generation++) {
      if (await store.add({ generation, kid, sealed, createdAt: now(), activeFrom })) break
      await this.#read()
      if (this.#keys.some((key) => key.generation >= generation)) break
    }
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
  if (x === undefined) throw new Error('The Ed25519 key has no public part.')
  const kid = await calculateJwkThumbprint({ kty: 'OKP', crv: 'Ed25519', x })
  return { kty: 'OKP', crv: 'Ed25519', x, kid, alg: TOKEN_ALGORITHM, use: 'sig' }
}
