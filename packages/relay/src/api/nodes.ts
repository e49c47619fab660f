/** The nodes of one API: a call goes to the one that last answered, and to the others in turn if it does not. */
import { StaticError } from '@static/protocol'

/** The time for one call, whatever number of nodes it takes. */
export const CALL_MS = 5000

/** One call to one node, which must end in the given time. */
type Call<Answer> = (url: string, timeoutMs: number) => Promise<Answer>

export class ApiNodes {
  readonly urls: readonly string[]
  readonly #monotonic: () => number
  #current: number

  /** Starts with a node chosen at random, so that relays spread over them. */
  constructor(
    urls: readonly string[],
    random: () => number = Math.random,
    monotonic: () => number = () => performance.now(),
  ) {
    this.urls = urls
    this.#monotonic = monotonic
    this.#current = Math.floor(random() * urls.length)
  }

  /** Calls one node after the other until one answers; rejects with the error of the last. */
  async call<Answer>(call: Call<Answer>): Promise<Answer> {
    const endsAt = this.#monotonic() + CALL_MS
    const first = this.#current
    for (let tried = 1; ; tried++) {
      const at = (first + tried - 1) % this.urls.length
      const isLast = tried === this.urls.length
      const left = Math.max(1, Math.round(endsAt - this.#monotonic()))
      try {
        // One that does not answer at all leaves half of the time to the others.
        const answer = await call(this.urls[at] ?? '', isLast ? left : Math.ceil(left / 2))
        this.#current = at
        return answer
      } catch (error) {
        if (isLast || !isOfNode(error)) throw error
      }
    }
  }

  /** Calls all nodes; the answers of those that answer, by their URLs. Rejects if there are none. */
  async callAll<Answer>(call: Call<Answer>): Promise<Map<string, Answer>> {
    const answers = new Map<string, Answer>()
    const errors: unknown[] = []
    await Promise.all(
      this.urls.map((url) =>
        call(url, CALL_MS).then(
          (answer) => answers.set(url, answer),
          (error: unknown) => errors.push(error),
        ),
      ),
    )
    // The most telling error: one that a node answered.
    if (answers.size === 0) throw errors.find((error) => StaticError.from(error).code !== 'unavailable') ?? errors[0]
    return answers
  }
}

/** Whether another node may answer: this one does not, or it does not know our credential. */
function isOfNode(error: unknown): boolean {
  const { code } = StaticError.from(error)
  return code === 'unavailable' || code === 'auth_key_invalid'
}
