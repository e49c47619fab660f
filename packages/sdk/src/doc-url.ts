/**
 * Where to read on about an error (`docUrl`). Errors are made deep inside, where nobody knows which API the agent uses:
 * they learn it here, on their way out of the public classes.
 */
import { StaticError } from '@static/protocol'

type Method = (...words: unknown[]) => unknown

/** Makes every error that leaves a method of a class name its page. */
export function explainErrors<Self extends object>(
  prototype: Self,
  apiUrlOf: (self: Self) => string | undefined,
): void {
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    if (typeof value !== 'function' || name === 'constructor') continue
    const method = value as Method
    const explaining = function (this: Self, ...words: unknown[]): unknown {
      return explained(apiUrlOf(this), () => method.apply(this, words))
    }
    Object.defineProperty(prototype, name, { value: explaining })
  }
}

/** Does something whose errors name their page: those that it throws, and those of the promise or iterator it gives. */
export function explained<Result>(apiUrl: string | undefined, work: () => Result): Result {
  const explain = (error: unknown): never => {
    if (error instanceof StaticError) error.explainAt(apiUrl)
    throw error
  }
  try {
    const result: unknown = work()
    if (result instanceof Promise) return result.catch(explain) as Result
    if (isIterator(result)) {
      const next = result.next.bind(result)
      result.next = (...words) => next(...words).catch(explain)
    }
    return result as Result
  } catch (error) {
    return explain(error)
  }
}

function isIterator(given: unknown): given is AsyncIterator<unknown> & { next: AsyncIterator<unknown>['next'] } {
  return typeof given === 'object' && given !== null && Symbol.asyncIterator in given && 'next' in given
}
