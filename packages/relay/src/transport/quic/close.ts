/** Closes connections, with error codes and reasons. */
import { QUIC_FULL } from '@static/quic'

/** A row of `QUIC_CLOSE`. */
export interface QuicClose {
  readonly code: number
  readonly reason: string
}

export const QUIC_CLOSE: Readonly<
  Record<'done' | 'noStream' | 'extraStream' | 'tooFast' | 'tooSlow' | 'full', QuicClose>
> = {
  done: { code: 0, reason: '' },
  noStream: { code: 1, reason: 'no session was opened in time' },
  extraStream: { code: 2, reason: 'one session per connection' },
  tooFast: { code: 3, reason: 'more was sent than the relay can take' },
  tooSlow: { code: 4, reason: 'too much is waiting to be read' },
  full: { code: QUIC_FULL, reason: 'the endpoint is full, retry later' },
}

/** A connection, as far as it is closed here. */
interface Closable {
  close(code: number, reason: string): void
}

/** Connections that are closed or closing. */
const gone = new WeakSet<Closable>()

/**
 * Closes a connection once. The library closes by a handle that it soon gives to another connection: closing twice
 * would cut that one off.
 */
export function close(session: Closable, { code, reason }: QuicClose): void {
  if (gone.has(session)) return
  gone.add(session)
  try {
    session.close(code, reason)
  } catch {
    // The endpoint is stopping and has closed it already.
  }
}

/** A connection has closed: its streams, which close after it, must not close it again. */
export function noteClosed(session: Closable): void {
  gone.add(session)
}
