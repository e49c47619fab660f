/** A member with valid keys that makes claims about requests and answers that no honest program makes. */
import { fromHex, parseChannelName } from '@static/protocol'
import type { Channel, StaticClient } from '@static/sdk'
import { encodeAnswer, encodeAnswerEnd, encodeCancel, encodeRequest, type FrameKind } from '@static/sdk/internal'

/** Sends frames with any content, each as a message of its channel. Ids of requests are hexadecimal. */
export class Liar {
  readonly agentId: string
  readonly channel: Channel
  readonly #sender: ReturnType<StaticClient['membershipOf']>['sender']

  constructor(client: StaticClient, channel: Channel) {
    this.agentId = client.agentId
    this.channel = channel
    this.#sender = client.membershipOf(parseChannelName(channel.name)).sender
  }

  /** Sends a frame of any kind with any bytes in it. Resolves with its message id. */
  async say(kind: FrameKind, bytes: Uint8Array): Promise<string> {
    return (await this.#sender.send(kind, bytes)).messageId
  }

  async request(to: string, payload: Uint8Array, lifetimeMs = 60_000): Promise<string> {
    return await this.say('request', encodeRequest({ to, lifetimeMs, payload }))
  }

  async answer(requestId: string, number: number, text: string): Promise<void> {
    await this.say('answer', encodeAnswer(fromHex(requestId), number, Buffer.from(text)))
  }

  async end(requestId: string, number: number, text?: string): Promise<void> {
    const content = text === undefined ? undefined : { payload: Buffer.from(text) }
    await this.say('answer_end', encodeAnswerEnd({ requestId: fromHex(requestId), number, content }))
  }

  async cancel(requestId: string): Promise<void> {
    await this.say('cancel', encodeCancel(fromHex(requestId)))
  }
}
