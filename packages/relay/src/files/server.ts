/** The port of files of a relay. */
import { type PartServer, type PartServerOptions, startPartServer } from './part-server.ts'
import { Transfers, type TransfersOptions } from './transfers.ts'

/** Options of the port. */
export interface FilesServerOptions extends TransfersOptions, PartServerOptions {}

/** An open port of files. */
export interface FilesServer extends PartServer {
  readonly transfers: Transfers
}

/** Opens the port. Throws `connection_error` if an address is in use. */
export async function startFilesServer(options: FilesServerOptions): Promise<FilesServer> {
  const transfers = new Transfers(options)
  const server = await startPartServer(options, (...request) => transfers.handle(...request))
  return { ...server, transfers }
}
