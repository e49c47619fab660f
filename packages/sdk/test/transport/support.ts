/** Lines to relays, and what came by them. */
import assert from 'node:assert/strict'
import { type ErrorCode, StaticError } from '@static/protocol'
import type { CellStream, Target, Transport } from '../../src/ports/index.ts'

/** A line that is up. */
export interface Dialled {
  readonly stream: CellStream
  /** Everything that came, in chunks. */
  readonly chunks: Uint8Array[]
  /** The last words, of which there should be one. */
  readonly lastWords: (StaticError | undefined)[]
  /** Fulfilled with the first last word. */
  readonly closed: Promise<StaticError | undefined>
  /** Waits until so many bytes have come. */
  received(bytes: number): Promise<Buffer>
}

/** Dials; fails when anything is delivered before the caller has the stream. */
export async function dial(transport: Transport, target: Target): Promise<Dialled> {
  const chunks: Uint8Array[] = []
  const lastWords: (StaticError | undefined)[] = []
  const { promise: closed, resolve } = Promise.withResolvers<StaticError | undefined>()
  let waiting = Promise.withResolvers<void>()
  let isUp = false
  const stream = await transport.dial(target, {
    data: (chunk) => {
      assert.ok(isUp, 'data before the stream')
      assert.equal(lastWords.length, 0, 'data after the last word')
      chunks.push(chunk)
      waiting.resolve()
      waiting = Promise.withResolvers()
    },
    closed: (reason) => {
      assert.ok(isUp, 'the last word before the stream')
      lastWords.push(reason)
      resolve(reason)
    },
  })
  isUp = true
  return {
    stream,
    chunks,
    lastWords,
    closed,
    received: async (bytes) => {
      const length = (): number => chunks.reduce((sum, chunk) => sum + chunk.length, 0)
      while (length() < bytes) await waiting.promise
      return Buffer.concat(chunks)
    },
  }
}

/** Checks that an error is ours, and tells a person what was wrong. */
export function refused(code: ErrorCode, message: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, code)
    assert.match(error.message, message)
    // One sentence, or two at most; no stack and nothing of the library's words.
    assert.match(error.message, /^[^\n]{10,300}\.$/)
    return true
  }
}
