/** What the bench and its servers tell each other. */

/** Where a server listens. */
export interface Ready {
  readonly quicPort: number
  readonly httpPort: number
}

/** What a server is asked: its use of the machine, or to write to every stream that is open. */
export type Question =
  | { readonly type: 'use' }
  | { readonly type: 'write'; readonly transport: 'quic' | 'http2'; readonly bytes: number; readonly times: number }

/** CPU microseconds of the whole process, all threads, and its resident memory. */
export interface Use {
  readonly cpu: number
  readonly rss: number
}
