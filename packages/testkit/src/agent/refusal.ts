/** The error of a refused request. */
import type { Error as WireRefusal } from '@static/protocol/relay'

/** A refusal of the relay. */
export class Refused extends Error {
  readonly code: string
  readonly refusal: WireRefusal

  constructor(refusal: WireRefusal) {
    super(`${refusal.code}: ${refusal.message}`)
    this.code = refusal.code
    this.refusal = refusal
  }
}

/** For `assert.rejects`: a refusal with this code, and a message like this one. */
export function refusal(code: string, message: RegExp = /./u): (error: unknown) => boolean {
  return (error) => {
    if (error instanceof Refused && error.code === code && message.test(error.message)) return true
    throw error
  }
}
