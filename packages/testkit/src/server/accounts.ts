/** Accounts for tests. */
import type { CreatedKey, SignedUp } from '@static/protocol'
import type { Client } from './client.ts'

export const PASSWORD = 'a long enough password'
let count = 0

/** Signs up a new account. */
export function signUp(client: Client, email: string = `person-${++count}@example.com`): Promise<SignedUp> {
  return client.json<SignedUp>(201, { method: 'POST', path: '/v1/accounts', body: { email, password: PASSWORD } })
}

/** Creates another key. */
export function makeKey(client: Client, key: string, wish: Record<string, unknown> = {}): Promise<CreatedKey> {
  return client.json<CreatedKey>(200, { method: 'POST', path: '/v1/keys', key, body: wish })
}
