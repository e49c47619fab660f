/** Messages between the relay's thread and the one that serves the port of files. */
import type { ErrorCode } from '@static/protocol'
import type { S3Access } from '../options.ts'
import type { Certificate, DueFile, PartAnswer, PartAsk, Time } from '../ports.ts'

/** Options of the thread. */
export interface FilesThreadOptions {
  /** Where the parts are: a directory, or a bucket. */
  readonly store: string | S3Access
  readonly host: string
  readonly port: number
  readonly certificate: Certificate
  readonly namedCertificate: Certificate
  /** Load balancers that announce their clients. */
  readonly proxyProtocolFrom: readonly string[]
  readonly proxyCa: string | undefined
  readonly bytesPerSecond: number
}

/** Work on many files, with the number of the call. */
export type FilesCall =
  | { readonly name: 'delete'; readonly files: readonly DueFile[] }
  /** Files that have parts, with keys after one, that have not changed since a time. A limited number. */
  | { readonly name: 'list'; readonly after: string; readonly before: Time }

export type FromFilesThread =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'unable'; readonly code: ErrorCode; readonly message: string }
  | { readonly type: 'ask'; readonly id: number; readonly ask: PartAsk }
  | { readonly type: 'stored'; readonly id: number; readonly checksum: number }
  | { readonly type: 'over'; readonly id: number }
  | { readonly type: 'space'; readonly isNearlyFull: boolean }
  | { readonly type: 'called'; readonly call: number; readonly keys: readonly string[]; readonly failed?: string }
  | { readonly type: 'moved'; readonly counts: FilesCounts }
  | { readonly type: 'failed'; readonly message: string }

export type ToFilesThread =
  | { readonly type: 'answer'; readonly id: number; readonly answer: PartAnswer }
  | { readonly type: 'call'; readonly call: number; readonly what: FilesCall }
  | { readonly type: 'renew'; readonly certificate: Certificate; readonly namedCertificate: Certificate }
  | { readonly type: 'close' }

/** What has passed since the start, for the metrics. */
export interface FilesCounts {
  /** Parts and bytes stored, and sent. */
  readonly stored: { readonly parts: number; readonly bytes: number }
  readonly sent: { readonly parts: number; readonly bytes: number }
  /** Bodies under way. */
  readonly bodies: number
  /** Bodies that were refused or ended because places were short. */
  readonly ousted: number
}
