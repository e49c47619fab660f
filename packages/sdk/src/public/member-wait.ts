/** Waiting for a state that the agent's events announce. */
import { StaticError } from '@static/protocol'
import { limitSend, type SendLimits } from '../channel/sending/send-wait.ts'
import type { Agent } from '../agent/agent.ts'

/**
 * Resolves with the result of `find`, which is called again whenever an event arrives.
 *
 * @throws {StaticError} `cancelled`, any error of `find`, or `closed`
 */
export async function waitForMember<Member>(
  { context, events }: Pick<Agent, 'context' | 'events'>,
  channel: string,
  find: () => Member | undefined,
  limits: SendLimits,
): Promise<Member> {
  const happening = events.listen()
  const cancelled = Promise.withResolvers<never>()
  cancelled.promise.catch(() => {})
  const forget = limitSend(context, limits, (cause, reason) =>
    cancelled.reject(StaticError.of('cancelled', `The member did not join ${channel}. ${reason}`, { cause })),
  )
  try {
    for (;;) {
      const found = find()
      if (found !== undefined) return found
      const { done } = await Promise.race([happening.next(), cancelled.promise])
      if (done === true) throw StaticError.of('closed')
    }
  } finally {
    forget?.()
    await happening.return?.()
  }
}
