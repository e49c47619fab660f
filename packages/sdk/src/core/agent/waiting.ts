/** Waiting for something that the agent's events tell of. */
import { StaticError } from '@static/protocol'
import { limitSend, type SendLimits } from '../channel/send-wait.ts'
import type { Agent } from './agent.ts'

/**
 * Resolves with what `find` finds, looking again whenever the members of the channel change.
 *
 * @throws {StaticError} `cancelled`, what `find` throws, or `closed`
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
  const forget = limitSend(context, limits, (cause, words) =>
    cancelled.reject(StaticError.of('cancelled', `The member did not join ${channel}. ${words}`, { cause })),
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
