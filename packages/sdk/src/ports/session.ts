/** A session with the relay: requests, responses and pushes. */
import type { StaticError } from '@static/protocol'
import type { AckPosition, ClientMessage, Error as Refusal, ServerMessage } from '@static/protocol/relay'

/** A request to the relay. */
export type RequestBody = Exclude<ClientMessage['body'], { readonly case: undefined }>
/** A response or push from the relay. */
export type ServerBody = Exclude<ServerMessage['body'], { readonly case: undefined }>

/** The answer to a kind of request. */
export type AnswerTo<Case extends RequestBody['case']> = Extract<ServerBody, { readonly case: Case }>['value']

/** The result of a request. */
export type Outcome =
  | { readonly type: 'answered'; readonly body: ServerBody }
  | { readonly type: 'refused'; readonly error: Refusal }
  /** The session ended before the answer came, or there was no session. Whether the relay acted is unknown. */
  | { readonly type: 'lost'; readonly error: StaticError }

/** An agent's record of the relay with a name. */
export interface KnownRelay {
  readonly relayId: Uint8Array
  /** The gRPC port that it announced; 0 if none. */
  readonly grpcPort: number
}

/** The server that takes and gives the parts of files. */
export interface FilesPlace {
  readonly host: string
  readonly port: number
  /** The name that its certificate must contain. */
  readonly serverName: string
}

/** How a session was opened. */
export interface SessionInfo {
  readonly way: 'quic' | 'grpc'
  /** Number of this agent's KeyPackages that the relay holds. */
  readonly keyPackages: number
  /** The relay's nonce of this session. Proofs in join requests are bound to it. */
  readonly nonce: Uint8Array
  /** Whether the agent is a guest, that is, acts for no account. */
  readonly guest: boolean
  readonly relay: KnownRelay
  /** Undefined if the relay has named no place for files. */
  readonly files: FilesPlace | undefined
}

/** Receives the events of the session, in order. */
export interface SessionListener {
  /** A session is open. All earlier requests have been answered or lost. */
  opened(info: SessionInfo): void
  /** A message that the relay sent unasked. */
  push(body: ServerBody): void
  /** The session is lost; the agent reconnects. */
  lost(reason: StaticError): void
  /** The relay with a name is now known, or has announced another port. Later sessions must reach the same one. */
  pin(relayName: string, relay: KnownRelay): void
}

/** A session with the relay. It reconnects whenever it is lost, until it is closed. */
export interface RelaySession {
  /** Sends a request. `done` is called once, never before `request` has returned, and in order with pushes. */
  request(body: RequestBody, done: (outcome: Outcome) => void): void
  /** Acknowledges entries; does nothing if no session is open. */
  ack(positions: readonly (Pick<AckPosition, 'channelId' | 'index'> & Partial<Pick<AckPosition, 'receipt'>>)[]): void
  /** Withholds pongs until `release`: the relay does not learn what was read, and sends at most 256 KiB more. */
  hold(): void
  release(): void
  /** Closes the session. Pending requests are lost. */
  close(): Promise<void>
}
