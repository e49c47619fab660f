/** Where a server's log goes. */
import type { ApiOptions } from '@static/api'
import { bufferedWriter } from './buffered-writer.ts'
import type { ServeFlags } from './flags.ts'

/** How to log. */
export function logOf({ logLevel: level }: ServeFlags): ApiOptions['log'] {
  return { write: bufferedWriter(process.stderr), pretty: process.stderr.isTTY, level }
}
