/** What readers of channels get. */
import { setImmediate } from 'node:timers/promises'
import { StaticError } from '@static/protocol'
import type { Channel } from '../../src/public/channel.ts'
import type { Envelope } from '../../src/public/envelope.ts'
import { text } from './test-system.ts'

/** Everything that a reader gets until the channel ends, and the code that ends it. */
export async function rest(channel: Channel): Promise<{ payloads: string[]; end: string | undefined }> {
  const payloads: string[] = []
  try {
    for await (const payload of channel.messages()) payloads.push(text(payload))
  } catch (error) {
    if (!(error instanceof StaticError)) throw error
    return { payloads, end: error.code }
  }
  return { payloads, end: undefined }
}

/** The next envelopes of a channel, settled. */
export async function takeEnvelopes(channel: Channel, count: number): Promise<Envelope[]> {
  const taken: Envelope[] = []
  for await (const envelope of channel.envelopes()) {
    taken.push(envelope)
    envelope.settle()
    if (taken.length === count) break
  }
  return taken
}

/** Waits until members have processed the same log: an own entry passes a little after its answer has come. */
export async function agreed(...channels: readonly Channel[]): Promise<void> {
  while (new Set(channels.map((channel) => channel.verify())).size > 1) await setImmediate()
}
