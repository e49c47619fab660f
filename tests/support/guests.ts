/** Accounts whose keys and ids appear in generated requests; accounts that a request breaks are replaced. */
import { CSRF_HEADER, type ListedSession, SESSION_COOKIE } from '@static/protocol'
import type { Answer, Client } from '@static/testkit/server/client'
import { makeKey, PASSWORD, signUp } from '@static/testkit/server/accounts'

const GUESTS = 6

/** Kinds of credentials that a request may use. */
export const CREDENTIALS = [
  'none',
  'live key',
  'live key',
  'test key',
  'revoked key',
  'mistyped key',
  'session',
  'session without header',
  'garbage',
] as const
export type Credential = (typeof CREDENTIALS)[number]

/** Kinds of values that a request may use as an id. */
export const IDENTIFIERS = ['own account', 'other account', 'own key', 'other key', 'own session', 'unknown'] as const
export type Identifier = (typeof IDENTIFIERS)[number]

interface Guest {
  readonly id: string
  readonly email: string
  readonly live: string
  readonly test: string
  readonly revoked: string
  /** Keys that may be revoked without harm to the guest. */
  readonly spareIds: string[]
  readonly session: string
  /** The id of another session of the guest. */
  readonly sessionId: string
}

/** A changing set of accounts. */
export class Guests {
  readonly #client: Client
  readonly #origin: string
  readonly #guests: Guest[] = []

  constructor(client: Client, origin: string) {
    this.#client = client
    this.#origin = origin
  }

  /** Fills the empty slots with new accounts. */
  async fill(): Promise<void> {
    while (this.#guests.length < GUESTS) this.#guests.push(await this.#invite())
  }

  /** Headers with the credentials. */
  headers(who: number, credential: Credential): Record<string, string> {
    const { live, test, revoked, session } = this.#guest(who)
    const cookie = `${SESSION_COOKIE}=${session}`
    switch (credential) {
      case 'none':
        return {}
      case 'live key':
        return { authorization: `Bearer ${live}` }
      case 'test key':
        return { authorization: `Bearer ${test}` }
      case 'revoked key':
        return { authorization: `Bearer ${revoked}` }
      case 'mistyped key':
        return { authorization: `Bearer ${live.slice(0, -1)}${live.endsWith('a') ? 'b' : 'a'}` }
      case 'session':
        return { cookie, [CSRF_HEADER]: '1', origin: this.#origin }
      case 'session without header':
        return { cookie }
      case 'garbage':
        return { authorization: 'Basic Og==' }
    }
  }

  /** An id of the wanted kind. */
  id(who: number, kind: Identifier): string {
    const own = this.#guest(who)
    const other = this.#guest(who + 1)
    switch (kind) {
      case 'own account':
        return own.id
      case 'other account':
        return other.id
      case 'own key':
        return own.spareIds.at(-1) ?? own.id
      case 'other key':
        return other.spareIds.at(-1) ?? other.id
      case 'own session':
        return own.sessionId
      case 'unknown':
        return '01900000-0000-7000-8000-000000000000'
    }
  }

  /** The address of a guest, whose password is `PASSWORD`. */
  email(who: number): string {
    return this.#guest(who).email
  }

  /** Drops accounts that a request closed or whose password or session it changed. */
  learn(who: number, operation: string, path: string, { status }: Answer): void {
    const endsSessions = operation === 'DELETE /v1/sessions' && status === 200
    if (status !== 204 && !endsSessions) return
    if (operation.startsWith('DELETE /v1/keys')) {
      for (const guest of this.#guests) {
        const at = guest.spareIds.findIndex((id) => path.includes(id))
        if (at >= 0) guest.spareIds.splice(at, 1)
        if (guest.spareIds.length === 0) this.#drop(guest)
      }
    } else if (operation.includes('/v1/accounts/')) {
      for (const guest of this.#guests.filter(({ id }) => path.includes(id))) this.#drop(guest)
    } else {
      this.#drop(this.#guest(who))
    }
  }

  #guest(who: number): Guest {
    const guest = this.#guests[who % this.#guests.length]
    if (!guest) throw new Error('There are no accounts. Call fill() first.')
    return guest
  }

  #drop(guest: Guest): void {
    // Always keep one, broken or not, so that concurrent requests have an account.
    const at = this.#guests.indexOf(guest)
    if (at >= 0 && this.#guests.length > 1) this.#guests.splice(at, 1)
  }

  async #invite(): Promise<Guest> {
    const { id, email, api_key: key } = await signUp(this.#client)
    const test = await makeKey(this.#client, key.key, { mode: 'test' })
    const revoked = await makeKey(this.#client, key.key)
    await this.#client.call({ method: 'DELETE', path: `/v1/keys/${revoked.id}`, key: key.key })
    const spareIds: string[] = []
    for (const mode of ['live', 'test', 'live', 'test'])
      spareIds.push((await makeKey(this.#client, key.key, { mode })).id)
    const signIn = { method: 'POST', path: '/v1/sessions', body: { email, password: PASSWORD } }
    await this.#client.call(signIn)
    const cookie = (await this.#client.call(signIn)).headers['set-cookie']?.[0] ?? ''
    const session = /=([^;]+)/.exec(cookie)?.[1] ?? ''
    const headers = { cookie: `${SESSION_COOKIE}=${session}`, [CSRF_HEADER]: '1' }
    const { sessions } = await this.#client.json<{ sessions: readonly ListedSession[] }>(200, {
      path: '/v1/sessions',
      headers,
    })
    const sessionId = sessions.find(({ current }) => !current)?.id ?? ''
    return { id, email, live: key.key, test: test.key, revoked: revoked.key, spareIds, session, sessionId }
  }
}
