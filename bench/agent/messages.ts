/** Messages between the bench and its agents. Bytes are base64. */

/** Size of the payload of every message. */
export const PAYLOAD_BYTES = 1024

/** The bench asks. */
export type Ask =
  | { readonly type: 'keyPackage' | 'echo' | 'echoAtOnce' | 'stopEcho' | 'serve' }
  | { readonly type: 'create'; readonly name: string }
  /** Sends the file at this path, or saves the newest one of the channel under it. */
  | { readonly type: 'sendFile' | 'saveFile'; readonly path: string }
  | { readonly type: 'add'; readonly keyPackages: readonly string[] }
  | { readonly type: 'join'; readonly name: string; readonly welcome: string }
  | { readonly type: 'send'; readonly count: number; readonly window: number }
  | { readonly type: 'receive' | 'roundTrips'; readonly count: number }
  | { readonly type: 'requests' | 'exchange'; readonly count: number; readonly window: number }

/** An agent reports; CPU in microseconds. */
export type Told =
  | { readonly type: 'done'; readonly cpu: number }
  | { readonly type: 'bytes'; readonly base64: string }
  | { readonly type: 'welcomes'; readonly base64: readonly string[] }
  | { readonly type: 'times'; readonly times: readonly number[] }
  | { readonly type: 'failed'; readonly message: string }
