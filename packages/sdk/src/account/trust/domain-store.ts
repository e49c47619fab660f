/**
 * The keys of a domain on this machine, and what was signed with them:
 *
 *     domains/acme.example/key.json             the private key
 *     domains/acme.example/next.json            the private key that takes its place once it is published
 *     domains/acme.example/retired/KID.json     the public part of one that has signed before
 *     domains/acme.example/statements/ID.json   a statement that was made
 *     domains/acme.example/revoked/ID.json      one that is revoked
 *     domains/acme.example/not-before.json      everything before is revoked
 *
 * A command may revoke a statement while an agent renews its own: as each writes other files, neither undoes the other.
 */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { randomBytes } from '#platform/crypto'
import { createFile, isErrno, makeDirectories, readPrivateFile, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { toBase64url } from '../../platform/bytes.ts'
import {
  type IssuerKey,
  type KeySet,
  MOST_DOMAIN_KEYS,
  MOST_REVOKED,
  revocationOf,
  thumbprintOf,
} from '../../proofs/keys.ts'
import {
  type DomainKey,
  domainFile,
  isSignedWith,
  makeDomainKey,
  MOST_STATEMENT_DAYS,
  publicPart,
  signStatement,
  type Statement,
} from '../../proofs/statement.ts'

/** A statement of which there is a record. */
export interface RecordedStatement extends Statement {
  readonly isRevoked: boolean
}

/** What both kinds of records have. */
type Entry = Pick<Statement, 'id' | 'expiresAt'>

/** A key that signs no more, as long as statements that it has signed may count. */
interface RetiredKey {
  readonly key: IssuerKey & Pick<DomainKey, 'kid'>
  /** In seconds. */
  readonly expiresAt: number
}

const KEY = 'key.json'
const NEXT = 'next.json'
const RETIRED = 'retired'
const NOT_BEFORE = 'not-before.json'
const ID_BYTES = 16
const DAY_SECONDS = 86_400
const STATEMENT_ID = /^[\w-]{16,64}$/

export class DomainStore {
  readonly domain: string
  readonly #directory: string

  /** `directory`: that of all domains (`UserPlaces.domains`). */
  constructor(directory: string, domain: string) {
    this.domain = domain
    this.#directory = join(directory, domain)
  }

  /** Whether this machine has the key of the domain. */
  get hasKey(): boolean {
    return this.#read(KEY) !== undefined
  }

  /** Makes the key of the domain; returns false if there is one. */
  init(): boolean {
    makeDirectories(this.#directory)
    return createFile(join(this.#directory, KEY), `${JSON.stringify(makeDomainKey())}\n`, 0o600)
  }

  /**
   * Makes the key that is to sign from `finishRotation` on, unless it was made before. Returns its `kid`. It is in the
   * file to publish beside the others, so that it is known before it signs.
   *
   * @throws {StaticError} `not_found` if the key is not on this machine, `invalid_request` if the file would have too many
   */
  beginRotation(now: number): string {
    const known = this.#next()
    if (known) return known.kid
    if (this.keySet(now).keys.length >= MOST_DOMAIN_KEYS) {
      const text = `${this.domain} has ${MOST_DOMAIN_KEYS} keys already. Drop those that sign no more with \`static domain rotate --drop\`.`
      throw StaticError.of('invalid_request', text)
    }
    const next = makeDomainKey()
    this.#write(NEXT, next)
    return next.kid
  }

  /**
   * The next key signs from now on. The one before it stays in the file until what it has signed has ended.
   *
   * @throws {StaticError} `not_found` if there is no next key, `invalid_request` if it is not among those that the domain
   *   has published: its agents would be strangers
   */
  finishRotation(published: readonly IssuerKey[], now: number): void {
    const next = this.#next()
    const again = `static domain rotate ${this.domain}`
    if (!next) {
      throw StaticError.of(
        'not_found',
        `There is no next key of ${this.domain}. Make one with \`${again}\`, and publish it.`,
      )
    }
    if (!published.some((key) => thumbprintOf(key) === thumbprintOf(next))) {
      const text = `${this.domain} has not published the next key yet. Upload the file that \`${again}\` writes.`
      throw StaticError.of('invalid_request', text)
    }
    const key = publicPart(this.#key()) as RetiredKey['key']
    const expiresAt = Math.floor(now / 1000) + MOST_STATEMENT_DAYS * DAY_SECONDS
    this.#write(join(RETIRED, `${key.kid}.json`), { key, expiresAt } satisfies RetiredKey)
    this.#write(KEY, next)
    rmSync(join(this.#directory, NEXT), { force: true })
  }

  /** Forgets the keys that sign no more: what they have signed is void once the file is published. */
  dropRetired(): void {
    rmSync(join(this.#directory, RETIRED), { recursive: true, force: true })
  }

  /** The key that was made and does not sign yet; undefined if there is none. */
  get nextKey(): IssuerKey | undefined {
    const next = this.#next()
    return next && publicPart(next)
  }

  /**
   * Signs a statement about an agent and records it.
   *
   * @throws {StaticError} `not_found` if the key is not on this machine
   */
  async sign(about: Pick<Statement, 'agentId' | 'subject'>, days: number, now: number): Promise<string> {
    const key = this.#key()
    // Not before `revokeAll`, which counts whole seconds.
    const issuedAt = Math.max(Math.floor(now / 1000), this.#notBefore())
    const id = toBase64url(randomBytes(ID_BYTES))
    const statement = { domain: this.domain, ...about, id, issuedAt, expiresAt: issuedAt + days * DAY_SECONDS }
    const jwt = await signStatement(key, statement)
    // Recorded before anyone has it: a statement that is not on the list could not be found to be revoked.
    this.#write(join('statements', `${id}.json`), statement)
    return jwt
  }

  /** Whether a statement was signed with the key of the domain, here or on another machine that has it. */
  async hasSigned(jwt: string, now: number): Promise<boolean> {
    const own = await Promise.all(this.keySet(now).keys.map((key) => isSignedWith(key, jwt)))
    return own.includes(true)
  }

  /** Whether a statement is revoked, which another machine may have made. */
  isRevoked({ id, issuedAt }: Pick<Statement, 'id' | 'issuedAt'>, now: number): boolean {
    return issuedAt < this.#notBefore() || this.#revoked(now).some((each) => each.id === id)
  }

  /** The statements that have not ended, oldest first. */
  statements(now: number): readonly RecordedStatement[] {
    const revoked = new Set(this.#revoked(now).map(({ id }) => id))
    const notBefore = this.#notBefore()
    return (this.#all('statements') as readonly Statement[])
      .filter(({ expiresAt }) => expiresAt * 1000 > now)
      .map((statement) => ({
        ...statement,
        isRevoked: revoked.has(statement.id) || statement.issuedAt < notBefore,
      }))
      .toSorted((one, other) => one.issuedAt - other.issuedAt)
  }

  /** Revokes a statement, which another machine may have made. It counts when the file of the domain is published. */
  revoke(id: string, now: number): void {
    if (!STATEMENT_ID.test(id))
      throw StaticError.of('invalid_request', `${JSON.stringify(id)} is not the id of a statement.`)
    const known = (this.#all('statements') as readonly Entry[]).find((statement) => statement.id === id)
    const expiresAt = known?.expiresAt ?? Math.floor(now / 1000) + MOST_STATEMENT_DAYS * DAY_SECONDS
    if (this.#revoked(now).length >= MOST_REVOKED) {
      throw StaticError.of(
        'invalid_request',
        `${MOST_REVOKED} statements of ${this.domain} are revoked already. Revoke all with \`static domain revoke --all\` and sign those again that are to stay.`,
      )
    }
    this.#write(join('revoked', `${id}.json`), { id, expiresAt })
  }

  /** Revokes everything that was signed until now. */
  revokeAll(now: number): void {
    this.#write(NOT_BEFORE, { notBefore: Math.floor(now / 1000) + 1 })
  }

  /** The file to publish. */
  publicFile(now: number): string {
    return domainFile(this.domain, this.keySet(now))
  }

  /** What the file to publish says. */
  keySet(now: number): KeySet {
    const revoked = this.#revoked(now).map(({ id }) => revocationOf(id))
    const next = this.#next()
    const key = this.#key()
    // A crash may have left the one that signs among the others.
    const retired = this.#retired(now).flatMap((one) => (one.key.kid === key.kid ? [] : [one.key]))
    const keys = [publicPart(key), ...(next ? [publicPart(next)] : []), ...retired]
    return { keys, notBefore: this.#notBefore(), revoked: revoked.toSorted() }
  }

  /** Deletes records of statements that have ended. */
  sweep(now: number): void {
    for (const folder of ['statements', 'revoked']) {
      for (const { id, expiresAt } of this.#all(folder) as readonly Entry[]) {
        if (expiresAt * 1000 <= now) rmSync(join(this.#directory, folder, `${id}.json`), { force: true })
      }
    }
    for (const { key, expiresAt } of this.#all(RETIRED) as readonly RetiredKey[]) {
      if (expiresAt * 1000 <= now) rmSync(join(this.#directory, RETIRED, `${key.kid}.json`), { force: true })
    }
  }

  #key(): DomainKey {
    const key = this.#read(KEY)
    if (key !== undefined) return key as DomainKey
    throw StaticError.of(
      'not_found',
      `The key of ${this.domain} is not on this machine. Run \`static domain init ${this.domain}\`, or sign where it is.`,
    )
  }

  #next(): DomainKey | undefined {
    const next = this.#read(NEXT) as DomainKey | undefined
    // A crash may have left it where it was.
    return next?.kid === this.#key().kid ? undefined : next
  }

  #retired(now: number): readonly RetiredKey[] {
    return (this.#all(RETIRED) as readonly RetiredKey[]).filter(({ expiresAt }) => expiresAt * 1000 > now)
  }

  #revoked(now: number): readonly Entry[] {
    return (this.#all('revoked') as readonly Entry[]).filter(({ expiresAt }) => expiresAt * 1000 > now)
  }

  #notBefore(): number {
    return (this.#read(NOT_BEFORE) as { readonly notBefore: number } | undefined)?.notBefore ?? 0
  }

  #all(folder: string): readonly unknown[] {
    return filesIn(join(this.#directory, folder)).flatMap((name) => {
      return name.startsWith('.') ? [] : [this.#read(join(folder, name))]
    })
  }

  #write(name: string, content: object): void {
    const path = join(this.#directory, name)
    makeDirectories(join(path, '..'))
    replaceFile(path, `${JSON.stringify(content)}\n`, 0o600)
  }

  #read(name: string): unknown {
    const path = join(this.#directory, name)
    const bytes = readPrivateFile(path)
    if (bytes === undefined) return undefined
    try {
      return JSON.parse(bytes.toString())
    } catch {
      // Not attached as the cause: the parser quotes the text, which may be the key.
      throw StaticError.of('invalid_request', `${path} is damaged. Restore it from a backup.`)
    }
  }
}

/** The domains whose keys are on this machine. */
export function domainsIn(directory: string): readonly string[] {
  return filesIn(directory).filter((domain) => !domain.startsWith('.') && new DomainStore(directory, domain).hasKey)
}

function filesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return []
    throw error
  }
}
