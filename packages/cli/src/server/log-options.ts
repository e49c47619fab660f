/** Log settings of a server. */
import type { ApiOptions } from '@static/api'
import { bufferedWriter } from './buffered-writer.ts'
import type { ServeFlags } from './flags.ts'

/** Logs to stderr, in readable form on a terminal. */
export function logOf({ logLevel: level }: ServeFlags): ApiOptions['log'] {
  return { write: bufferedWriter(process.stderr), pretty: process.stderr.isTTY, level }
}
