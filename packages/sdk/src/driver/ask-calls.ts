/** The program's requests, and the requests from others that it serves. */
import { ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import type { Ask } from '../public/ask.ts'
import type { Channel } from '../public/channel.ts'
import type { ServeOptions } from '../channel/asking/serving.ts'
import type { Answer, ChannelRequest, ReceivedMessage } from '../public/envelope.ts'
import type { AskCall, CallResult, ChannelRef, ReceivedFields, Tell } from './pipe-protocol.ts'
import { plainMember } from './plain.ts'

/** A request of the program. */
interface HeldAsk {
  readonly ask: Ask
  /** A wait that the program abandoned: its next one gets the answer. */
  next: Promise<IteratorResult<Answer, undefined>> | undefined
}

/** A request that the program serves. */
interface Served {
  /** Adds an answer, or the end without a payload. */
  push(payload: Uint8Array | undefined, error?: Error): void
  /** Resolves when the last answer was sent; false if no more are wanted. */
  ready: PromiseWithResolvers<boolean>
}

/** The requests of one program. */
export class AskCalls {
  readonly #tell: Tell
  readonly #asks = new Map<number, HeldAsk>()
  readonly #served = new Map<number, Served>()
  #numbers = 0

  constructor(tell: Tell) {
    this.#tell = tell
  }

  async answer(
    channel: (on: ChannelRef) => Channel,
    call: Exclude<AskCall, { do: 'askOne' }>,
    bytes: Uint8Array,
  ): Promise<CallResult> {
    switch (call.do) {
      case 'ask': {
        const { on, to, timeout } = call
        const options = { ...(to === undefined ? {} : { to }), ...(timeout === undefined ? {} : { timeout }) }
        return { result: this.#hold(channel(on).ask(bytes, options)) }
      }
      case 'asked':
        return {
          result: channel(call.on)
            .asked()
            .map((ask) => this.#hold(ask)),
        }
      case 'nextAnswer':
        return await this.#next(call.on)
      case 'cancelAsk':
        this.#asks.get(call.on)?.ask.cancel()
        this.#asks.delete(call.on)
        return {}
      case 'answer':
        return { result: await this.#answer(call.token, bytes) }
    }
  }

  /** Makes the program serve each request; `id` is the number of its call. */
  async serve(channel: Channel, id: number, options: ServeOptions): Promise<void> {
    await channel.serve((request) => this.#serve(id, request), options)
  }

  /** The program has fully answered a request, or failed to. */
  answered(token: number, failure: { readonly code?: string; readonly message: string } | undefined): void {
    this.#served.get(token)?.push(undefined, failure && errorOf(failure))
  }

  #hold(ask: Ask): unknown {
    const number = ++this.#numbers
    this.#asks.set(number, { ask, next: undefined })
    return { ask: number, id: ask.id, to: ask.to ?? null, deadline: ask.deadline.getTime() }
  }

  async #next(on: number): Promise<CallResult> {
    const held = this.#asks.get(on)
    if (!held) return { result: { done: true } }
    held.next ??= held.ask.next().finally(() => (held.next = undefined))
    const { done, value } = await held.next
    if (done === true) this.#asks.delete(on)
    if (!value) return { result: { done: true } }
    return plainAnswer(value)
  }

  async *#serve(call: number, request: ChannelRequest): AsyncGenerator<Uint8Array, void> {
    const token = ++this.#numbers
    const answers: { payload: Uint8Array | undefined; error: Error | undefined }[] = []
    let wake = Promise.withResolvers<void>()
    const served: Served = {
      push: (payload, error) => {
        answers.push({ payload, error })
        wake.resolve()
      },
      ready: Promise.withResolvers(),
    }
    this.#served.set(token, served)
    const cancel = (): void => {
      served.ready.resolve(false)
      this.#tell({ event: 'cancelled', call, token })
    }
    request.signal.addEventListener('abort', cancel)
    const { isToMe, redelivered } = request
    const deadline = request.deadline.getTime()
    this.#tell({ event: 'serve', call, token, ...fieldsOf(request), isToMe, deadline, redelivered }, request.payload)
    try {
      for (;;) {
        await wake.promise
        wake = Promise.withResolvers()
        for (const { payload, error } of answers.splice(0)) {
          if (error) throw error
          if (!payload) return
          yield payload
          served.ready.resolve(true)
        }
      }
    } finally {
      request.signal.removeEventListener('abort', cancel)
      served.ready.resolve(false)
      this.#served.delete(token)
    }
  }

  /** Returns whether the asker wants more. */
  async #answer(token: number, payload: Uint8Array): Promise<boolean> {
    const served = this.#served.get(token)
    if (!served) return false
    served.ready = Promise.withResolvers()
    served.push(Uint8Array.from(payload))
    return await served.ready.promise
  }
}

/** An answer for the program. */
export function plainAnswer(answer: Answer): CallResult {
  const { error } = answer
  const fields = fieldsOf(answer)
  if (!error) return { result: fields, bytes: answer.payload }
  return { result: { ...fields, error: { code: error.code, message: error.message, answer: error.details.answer } } }
}

function fieldsOf({ sender, messageId, index, epoch, time }: ReceivedMessage): ReceivedFields {
  return {
    sender: plainMember(sender),
    messageId,
    index,
    epoch,
    time: time.getTime(),
  }
}

/** If the code is one of Static's, it is meant for the asker. */
function errorOf({ code, message }: { readonly code?: string; readonly message: string }): Error {
  return code !== undefined && Object.hasOwn(ERRORS, code)
    ? StaticError.of(code as ErrorCode, message)
    : new Error(message)
}
