/** A message that no attempt can handle, because its payload does not fit: it is put aside at once. */
import { StaticError } from '@static/protocol'

/** Thrown by a handler, with the reason. */
export class Unfit extends Error {
  constructor(reason: StaticError) {
    super(reason.message)
    this.name = reason.code
  }

  /** Runs a check; its errors of Static mean that the payload does not fit. */
  static async unless<Value>(check: () => Promise<Value>): Promise<Value> {
    try {
      return await check()
    } catch (error) {
      throw error instanceof StaticError ? new Unfit(error) : error
    }
  }
}
