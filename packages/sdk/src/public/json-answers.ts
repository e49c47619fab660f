/** Requests and answers whose payloads are JSON. */
import { StaticError } from '@static/protocol'
import { jsonText } from '../channel/sending/payload.ts'
import type { Answers } from '../channel/asking/serving.ts'
import type { Ask } from './ask.ts'
import type { Answer, ChannelRequest } from './envelope.ts'
import { fitted, type StandardSchema } from './standard-schema.ts'

/** The result of a handler of `Channel.serve` with a schema: values that are sent as JSON, or a promise of one. */
export type JsonAnswers = AsyncIterable<unknown, unknown> | Promise<unknown>

/** @internal Checks a request, and sends what its handler gives as JSON. */
export async function* jsonAnswers<Value>(
  request: ChannelRequest,
  schema: StandardSchema<unknown, Value>,
  handler: (value: Value) => JsonAnswers,
): AsyncGenerator<string, string | undefined> {
  const answers = handler(await fitted(schema, request.json(), 'The request'))
  if (!(Symbol.asyncIterator in answers)) return textOf(await answers)
  const iterator = answers[Symbol.asyncIterator]()
  try {
    for (;;) {
      const { done, value } = await iterator.next()
      if (done === true) return textOf(value)
      yield jsonText(value)
    }
  } finally {
    await iterator.return?.()
  }
}

/** @internal The types of a handler with and without a schema, seen from inside. */
export type AnyServeHandler = (request: ChannelRequest, value?: unknown) => Answers | JsonAnswers

/**
 * @internal The first answer of the member that was asked. Others are not waited for.
 *
 * @throws {StaticError} `ask_failed`, `cancelled`, or as `Ask.next`
 */
export async function onlyAnswer(ask: Ask, signal: AbortSignal | undefined): Promise<Answer> {
  const { value: answer } = await ask.next()
  ask.cancel()
  if (answer?.error) throw answer.error
  if (answer) return answer
  if (signal?.aborted === true) {
    const text = 'The request was cancelled: its signal was aborted.'
    throw StaticError.of('cancelled', text, { cause: signal.reason })
  }
  throw StaticError.of('ask_failed', `Agent ${(ask.to ?? '').slice(0, 8)}… ended its answer without a payload.`)
}

function textOf(value: unknown): string | undefined {
  return value === undefined ? undefined : jsonText(value)
}
