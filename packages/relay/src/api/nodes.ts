/** The nodes of one API. A call goes to the node that last answered and, if that fails, to the others in turn. */
import { StaticError } from '@static/protocol'

/** The time limit of one call, however many nodes it tries. */
export const CALL_MS = 5000

/** Calls one node, within the given time. */
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
        // A silent node leaves half of the time to the others.
        const answer = await call(this.urls[at] ?? '', isLast ? left : Math.ceil(left / 2))
        this.#current = at
        return answer
      } catch (error) {
        if (isLast || !isOfNode(error)) throw error
      }
    }
  }

  /** Calls all nodes. Returns the answers by URL; rejects if no node answers. */
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
    // Prefer an error that a node sent over one from the connection.
    if (answers.size === 0) throw errors.find((error) => StaticError.from(error).code !== 'unavailable') ?? errors[0]
    return answers
  }
}

/** Whether another node may succeed: this one is down or rejects our credential. */
function isOfNode(error: unknown): boolean {
  const { code } = StaticError.from(error)
  return code === 'unavailable' || code === 'auth_key_invalid'
}
