/** Tokens that the program gets for the proofs of its agent, with the function that it has passed as `proof`. */
import { StaticError } from '@static/protocol'
import type { Tell } from './pipe-protocol.ts'

/** The pending calls of the program's function. */
export class Minting {
  readonly #tell: Tell
  readonly #pending = new Map<number, PromiseWithResolvers<string>>()
  #numbers = 0

  constructor(tell: Tell) {
    this.#tell = tell
  }

  /** Makes the program get a token for an audience. */
  async mint(audience: string): Promise<string> {
    const token = ++this.#numbers
    const pending = Promise.withResolvers<string>()
    this.#pending.set(token, pending)
    this.#tell({ event: 'mint', token, audience })
    try {
      return await pending.promise
    } finally {
      this.#pending.delete(token)
    }
  }

  /** What the program has got. */
  minted(token: number, jwt: string | undefined, error: string | undefined): void {
    const pending = this.#pending.get(token)
    if (error === undefined) pending?.resolve(jwt ?? '')
    else pending?.reject(new Error(error))
  }

  /** The program is gone. */
  close(): void {
    for (const { reject } of this.#pending.values()) reject(StaticError.of('closed'))
  }
}
