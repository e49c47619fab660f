/** Marks each further attempt at a message, because the first may have had effects. */
import type { MessageHandler } from './command.ts'

/** A handler that marks the messages it has received before. */
export function markFurtherAttempts(handler: MessageHandler): MessageHandler {
  const tried = new Set<string>()
  return async (message) => {
    // The payloads of a pack share an index, and senders choose ids.
    const name = `${message.message_id}@${message.index}`
    const redelivered = message.redelivered || tried.has(name)
    tried.add(name)
    await handler({ ...message, redelivered })
    tried.delete(name)
  }
}
