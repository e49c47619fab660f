/** Messages between the bench and its servers. */

/** The address of a server. */
export interface Ready {
  readonly quicPort: number
  readonly httpPort: number
}

/** A request to a server: report its usage, or write to every open stream. */
export type Question =
  | { readonly type: 'use' }
  | { readonly type: 'write'; readonly transport: 'quic' | 'http2'; readonly bytes: number; readonly times: number }

/** CPU microseconds of the whole process, all threads, and its resident memory. */
export interface Use {
  readonly cpu: number
  readonly rss: number
}
