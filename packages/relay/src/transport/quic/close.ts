/** Error codes and reasons for closing a connection or stream. */
export const QUIC_CLOSE = {
  done: { code: 0, reason: '' },
  noStream: { code: 1, reason: 'no session was opened in time' },
  extraStream: { code: 2, reason: 'one session per connection' },
  tooFast: { code: 3, reason: 'more was sent than the relay can take' },
  tooSlow: { code: 4, reason: 'too much is waiting to be read' },
} as const

/** A row of `QUIC_CLOSE`. */
export type QuicClose = (typeof QUIC_CLOSE)[keyof typeof QUIC_CLOSE]
