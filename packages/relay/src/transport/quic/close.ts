/** Error codes and reasons for closing a connection or stream. */
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
