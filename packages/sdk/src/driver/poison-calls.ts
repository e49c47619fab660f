/** Calls about the messages that a channel has put aside. */
import type { PoisonMessage, PoisonMessages } from '../public/received/poison-messages.ts'
import type { CallResult, PoisonCall, PoisonPlace } from './pipe-protocol.ts'
import { plainMember } from './plain.ts'

/** At most 8 MiB of payloads in total. */
const MOST_POISON = 32

export async function answerPoisonCall(poison: PoisonMessages, call: PoisonCall): Promise<CallResult> {
  switch (call.do) {
    case 'poison':
      return listed(poison.list(), call.after)
    case 'retryPoison':
      await poison.retry(call.message)
      return {}
    case 'dropPoison':
      await poison.drop(call.message)
      return {}
  }
}

/**
 * The next of these messages. Not all at once, because frames are limited. The ids of a pack's payloads are in their
 * order.
 */
function listed(all: readonly PoisonMessage[], after: PoisonPlace): CallResult {
  const isNext = ({ index, messageId }: PoisonMessage): boolean =>
    index > after.index || (index === after.index && messageId > after.messageId)
  const messages = all.filter(isNext).slice(0, MOST_POISON)
  const result = messages.map(({ payload, sender, time, putAsideAt, ...fields }) => ({
    ...fields,
    bytes: payload.length,
    sender: plainMember(sender),
    time: time.getTime(),
    putAsideAt: putAsideAt.getTime(),
  }))
  return { result, bytes: Buffer.concat(messages.map(({ payload }) => payload)) }
}
