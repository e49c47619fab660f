/** A reader of an inbox: an iterator that settles each payload when the next one is asked for. */
import type { StaticError } from '@static/protocol'
import type { Entry } from './inbox-entry.ts'

/** A reader waiting for a payload. */
export interface Waiting {
  /** The iterator that asked. */
  readonly reader: object
  give(entry: Entry | undefined): void
  fail(error: StaticError): void
}

export interface ReadOptions {
  /** Payloads count as delivered only when `given` is called: a reader that reads ahead may never pass them on. */
  readonly ahead?: boolean
}

/** What a reader asks of its inbox. */
interface ReaderHost {
  /** Whether the iterators of this time may go on. */
  isOpen(): boolean
  /** Gives the next payload, or the end, when there is one. */
  take(waiting: Waiting): void
  /** The iterator waits no more. Returns what it waited for. */
  leave(reader: object): readonly Waiting[]
  given(entry: Entry): void
  settle(entry: Entry): void
  release(entry: Entry): void
}

/** Returns an iterator over the payloads. If it is ended early, its last payload is delivered again. */
export function makeReader<Item>(
  host: ReaderHost,
  map: (entry: Entry) => Item,
  { ahead = false }: ReadOptions,
): AsyncIterableIterator<Item, undefined, undefined> {
  let given: Entry | undefined
  let done = false
  const end = { done: true, value: undefined } as const
  const settle = (): void => {
    if (given?.holder === iterator) host.settle(given)
    given = undefined
  }
  const iterator: AsyncIterableIterator<Item, undefined, undefined> = {
    next: () => {
      settle()
      if (done || !host.isOpen()) return Promise.resolve(end)
      const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<Item, undefined>>()
      const give = (entry: Entry | undefined): void => {
        // The payload of an earlier `next` that was called without waiting.
        settle()
        given = entry
        done = entry === undefined
        if (entry && !ahead) host.given(entry)
        resolve(entry ? { done: false, value: map(entry) } : end)
      }
      host.take({ reader: iterator, give, fail: reject })
      return promise
    },
    return: () => {
      if (given?.holder === iterator) host.release(given)
      given = undefined
      done = true
      for (const waiting of host.leave(iterator)) waiting.give(undefined)
      return Promise.resolve(end)
    },
    [Symbol.asyncIterator]: () => iterator,
  }
  return iterator
}
