/** Sends each text in a turn of its own, so that each is a message of its own; in order, without waiting for answers. */
import { setImmediate } from 'node:timers/promises'
import type { Channel } from '../../src/public/channel.ts'
import type { SentMessage } from '../../src/channel/sending/outbox.ts'

/** One promise for each text, as `send` returns it. */
export function sendApart(channel: Pick<Channel, 'send'>, texts: readonly string[]): Promise<SentMessage>[] {
  let turn: Promise<unknown> = Promise.resolve()
  return texts.map(async (text) => {
    const mine = turn
    // The first may come before the end of the turn, the second comes after it.
    turn = mine.then(() => setImmediate()).then(() => setImmediate())
    await mine
    return await channel.send(text)
  })
}
