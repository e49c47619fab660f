/** What the tests of sessions share. */
import assert from 'node:assert/strict'
import { generateKeyPairSync, sign } from 'node:crypto'
import { type ErrorCode, StaticError } from '@static/protocol'
import type {
  AnswerTo,
  RelaySession,
  RequestBody,
  KnownRelay,
  ServerBody,
  SessionInfo,
  SessionListener,
} from '../../src/ports/index.ts'
import { refusalError } from '../../src/ports/refusal.ts'

/** Writes down what it is told. */
export class Listener implements SessionListener {
  /** Everything, in order, by its name. */
  readonly log: string[] = []
  readonly infos: SessionInfo[] = []
  readonly pushes: ServerBody[] = []
  readonly losses: StaticError[] = []
  readonly pins: { endpoint: string; relay: KnownRelay }[] = []
  #changed = Promise.withResolvers<void>()

  opened(info: SessionInfo): void {
    this.infos.push(info)
    this.note('opened')
  }

  push(body: ServerBody): void {
    this.pushes.push(body)
    this.note('push')
  }

  lost(reason: StaticError): void {
    this.losses.push(reason)
    this.note('lost')
  }

  pin(endpoint: string, relay: KnownRelay): void {
    this.pins.push({ endpoint, relay })
    this.note('pin')
  }

  note(what: string): void {
    this.log.push(what)
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  /** Waits until something holds of what was told. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#changed.promise
  }
}

/** A key of its own. */
export function makeSigner(): { publicKey: Uint8Array; sign: (bytes: Uint8Array) => Uint8Array } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    publicKey: new Uint8Array(Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url')),
    sign: (bytes) => new Uint8Array(sign(null, bytes, privateKey)),
  }
}

/** Checks that an error is ours and says what it should. */
export function refusedWith(code: ErrorCode, message: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, code)
    assert.match(error.message, message)
    return true
  }
}

/**
 * Asks and waits for the answer.
 *
 * @throws {StaticError} the relay's refusal, or why the answer never came
 */
export function call<Case extends RequestBody['case']>(
  session: RelaySession,
  body: Extract<RequestBody, { readonly case: Case }>,
): Promise<AnswerTo<Case>> {
  const { promise, resolve, reject } = Promise.withResolvers<ServerBody['value']>()
  session.request(body, (outcome) => {
    if (outcome.type === 'answered') resolve(outcome.body.value)
    else reject(outcome.type === 'refused' ? refusalError(outcome.error) : outcome.error)
  })
  // The session lets no answer of another kind through.
  return promise as Promise<AnswerTo<Case>>
}
