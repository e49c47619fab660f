/** Deletes a channel by its account's key, without a member: its owner's machine may be gone. */
import { setTimeout as delay } from 'node:timers/promises'
import { withinTime } from '@static/node/within-time'
import { message, parseChannelName, StaticError, toHex } from '@static/protocol'
import { DeleteChannelRequestSchema } from '@static/protocol/relay'
import { RelayRequests } from '../agent/relay-requests.ts'
import { agentIdOf, ed25519, generateSignatureKeyPair } from '../mls/index.ts'
import { transportsFor } from '../public/agent-parts.ts'
import { ErrorEdge } from '../public/error-edge.ts'
import { type AccountSessionOptions, resolveAccountSession } from '../public/settings.ts'
import { openSession } from '../session/core-runner.ts'
import { makeTokenSource } from './token-source.ts'

/** How long to wait for an answer, over all sessions. */
const LONGEST_MS = 60_000

/**
 * Deletes a channel of the account for all its members. The relay knows the agent of this session by nothing but a new
 * key, which is forgotten afterwards.
 *
 * @throws {StaticError} `not_found` if the account owns no such channel, `api_key_required`, and as
 *   `StaticClient.connect`
 */
export async function deleteAccountChannel(name: string, options: AccountSessionOptions = {}): Promise<void> {
  const channel = parseChannelName(name)
  const { traffic, connectTimeoutMs, apiKey, apiUrl, ...settings } = resolveAccountSession(
    'deleteAccountChannel',
    options,
  )
  await new ErrorEdge(apiUrl).wait(async () => {
    const key = generateSignatureKeyPair()
    const { publicKey } = key
    let isRepeated = false
    const { session, ready } = openSession({
      ...settings,
      traffic,
      transports: transportsFor(traffic, connectTimeoutMs),
      pins: new Map(),
      publicKey,
      sign: ed25519.signer(key),
      tokens: makeTokenSource({ apiKey, apiUrl, ca: settings.ca, agentId: toHex(agentIdOf(publicKey)) }),
      listener: {
        opened: () => requests.opened(),
        lost: () => {
          isRepeated = true
          requests.lost()
        },
        push: () => {},
        pin: () => {},
      },
    })
    const requests = new RelayRequests(session, { wait: (milliseconds) => delay(milliseconds) })
    try {
      await ready
      const value = message(DeleteChannelRequestSchema, { channel: { case: 'name', value: channel } })
      const asking = requests
        .ask({ case: 'deleteChannel', value }, () => true)
        .catch((error: unknown) => {
          // The answer to the first request may have been lost.
          if (isRepeated && StaticError.from(error).code === 'not_found') return true
          throw error
        })
      if (await withinTime(asking, LONGEST_MS)) return
      throw StaticError.of('unavailable', `The relay did not say whether it deleted ${channel}. Try again.`)
    } finally {
      await session.close()
    }
  })
}
