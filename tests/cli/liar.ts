/** A malicious API: every string in its answers contains terminal escape sequences. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

/** Sets the terminal title and clears the screen. */
const EVIL = '\u001B]0;mine\u0007\u001B[2J'

const account = { id: EVIL, email: EVIL, name: EVIL, plan: EVIL, status: EVIL, created_at: EVIL }
const key = { id: EVIL, key: `sk_live_${EVIL}`, key_prefix: EVIL, name: EVIL, mode: EVIL, created_at: EVIL }
const usage = {
  plan: EVIL,
  mode: EVIL,
  messages: { used: EVIL, reserved: EVIL, limit: EVIL, remaining: EVIL },
  token_exchanges: EVIL,
  resets_at: EVIL,
  daily: [{ date: EVIL, messages: EVIL }],
}
const ANSWERS: Readonly<Record<string, unknown>> = {
  'GET /v1/accounts/me': account,
  'POST /v1/accounts': { ...account, api_key: key },
  'POST /v1/sessions': account,
  'GET /v1/keys': { keys: [{ ...key, last_used_at: EVIL }] },
  'POST /v1/keys': key,
  'POST /v1/tokens': { token: EVIL, expires_at: EVIL },
  'GET /v1/usage': usage,
}

/** A running malicious API. */
export interface Liar extends Disposable {
  readonly url: string
}

/** Starts it with the server certificate from a data directory. */
export async function startLiar(directory: string): Promise<Liar> {
  const [cert, privateKey] = ['server.pem', 'server.key'].map((name) => readFileSync(join(directory, name)))
  const api = createServer({ cert, key: privateKey }, (request, response) => {
    const answer = ANSWERS[`${request.method} ${request.url?.split('?')[0]}`]
    response.writeHead(answer === undefined ? 400 : 200, { 'set-cookie': 'session=1' })
    response.end(JSON.stringify(answer ?? { code: 'invalid_request', detail: EVIL }))
  }).listen(0, '127.0.0.1')
  await once(api, 'listening')
  const { port } = api.address() as AddressInfo
  return { url: `https://localhost:${port}`, [Symbol.dispose]: () => api.close() }
}
