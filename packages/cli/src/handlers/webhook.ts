/**
 * Calls a URL for each message (`listen --webhook`). The request is signed with HMAC-SHA256 over its time and body, so
 * that the server can tell it from forgeries and from old copies. A 2xx response means that the message is handled; its
 * body is not read.
 */
import { createHmac } from 'node:crypto'
import { shownIdentity, StaticError } from '@static/protocol'
import { isLoopback } from '@static/sdk/account'
import type { MessageHandler, SavedMessage } from './command.ts'

/** The receiver of messages. */
export interface Webhook {
  readonly url: URL
  readonly secret: string
  /** Whether the payload is in the body. */
  readonly withPayload: boolean
  /** How long the response may take. Default: 30 s. */
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 30_000
const SHORTEST_SECRET = 16
const MS = 1000

/**
 * Checks the address of a webhook.
 *
 * @throws {StaticError} `invalid_request`
 */
export function parseWebhook(text: string): URL {
  const url = URL.parse(text)
  if (url && (url.username !== '' || url.password !== '')) {
    throw StaticError.of(
      'invalid_request',
      '--webhook contains a user name or password. Remove them: the receiver recognizes a call by its signature (static-signature).',
    )
  }
  const isLocal = url !== null && isLoopback(url.hostname.replaceAll(/[[\]]/g, ''))
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLocal)) return url
  // Errors end up in logs, so they must not contain a password, nor a path or query, which are often secret.
  const shown = url ? `${url.protocol}//${url.host}` : text.replace(/^.*@/s, '…@')
  throw StaticError.of(
    'invalid_request',
    `--webhook is ${JSON.stringify(shown)}. It must be an https:// URL, or http:// to this machine.`,
  )
}

/** @throws {StaticError} `invalid_request` if the secret is too short to protect anything */
export function checkSecret(secret: string): void {
  if (secret.length >= SHORTEST_SECRET) return
  throw StaticError.of(
    'invalid_request',
    `The webhook secret has ${secret.length} characters. It must have at least ${SHORTEST_SECRET}, preferably random.`,
  )
}

/** A handler that calls the webhook. When `signal` is aborted, the call ends. */
export function webhookHandler(
  { url, secret, withPayload, timeoutMs = TIMEOUT_MS }: Webhook,
  signal: AbortSignal,
): MessageHandler {
  return async (message) => {
    const body = JSON.stringify(bodyOf(message, withPayload))
    const time = Math.floor(Date.now() / MS)
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'static-signature': `t=${time},v1=${signatureOf(secret, time, body)}`,
        'user-agent': 'static',
      },
      body,
      // A redirect would send the message to another address.
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    }).catch((error: unknown) => {
      throw new Error(`The webhook did not answer: ${reasonOf(error)}.`)
    })
    // Not read, regardless of its length.
    await answer.body?.cancel()
    if (!answer.ok) throw new Error(`The webhook answered ${answer.status}.`)
  }
}

/** The signature of a request: HMAC-SHA256 in hexadecimal over `<time>.<body>`. */
function signatureOf(secret: string, time: number, body: string): string {
  return createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')
}

function bodyOf(
  { payload, sender, ...message }: SavedMessage,
  withPayload: boolean,
): Readonly<Record<string, unknown>> {
  return {
    ...message,
    sender: { ...sender, identity: shownIdentity(sender.identity) },
    ...(withPayload && { payload }),
  }
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  return cause instanceof Error ? cause.message || String(Reflect.get(cause, 'code')) : String(cause)
}
