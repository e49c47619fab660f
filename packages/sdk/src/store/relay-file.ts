/** The relay of an agent without an account, stored in its directory as `relay.json` (SPEC.md, 5.7). */
import { join } from 'node:path'
import { readPrivateFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** The data kept from a link, or from the flags of a join. The relay's id is in the database. */
export interface LinkedRelay {
  /** Addresses of the relay, in the form of the option `endpoint`. */
  readonly endpoint: string
  /** Name in the relay's certificate. */
  readonly relayName: string
  /** CA of the relay's certificate, PEM; undefined for a public one. */
  readonly ca: string | undefined
}

export const RELAY_FILE = 'relay.json'
const VERSION = 1

/**
 * Reads the relay that an agent keeps; undefined if there is none.
 *
 * @throws {StaticError} `store_permissions`, or `store_corrupt` if `writeRelayFile` did not write it
 */
export function readRelayFile(directory: string): LinkedRelay | undefined {
  const path = join(directory, RELAY_FILE)
  const bytes = contentOf(path)
  if (bytes === undefined) return undefined
  const found = parsed(bytes)
  const { version, endpoint, relay_name: relayName, ca } = found ?? {}
  const isWhole = typeof endpoint === 'string' && typeof relayName === 'string'
  if (version !== VERSION || !isWhole || (ca !== undefined && typeof ca !== 'string')) {
    throw StaticError.of('store_corrupt', `${path} is damaged. Delete it, and pass the relay's address or a new link.`)
  }
  return { endpoint, relayName, ca }
}

function contentOf(path: string): Buffer | undefined {
  try {
    return readPrivateFile(path)
  } catch (error) {
    if (error instanceof StaticError) throw error
    // Not a directory: opening the agent will report it.
    if (error instanceof Error && 'code' in error && error.code === 'ENOTDIR') return undefined
    throw StaticError.of('invalid_request', `${path} cannot be read. Check its permissions.`, { cause: error })
  }
}

/** Writes the relay of an agent without an account. */
export function writeRelayFile(directory: string, { endpoint, relayName, ca }: LinkedRelay): void {
  const path = join(directory, RELAY_FILE)
  const fields = { version: VERSION, endpoint, relay_name: relayName, ca }
  sweepLeftovers(path)
  replaceFile(path, `${JSON.stringify(fields, null, 2)}\n`, 0o600)
}

function parsed(bytes: Buffer): Partial<Record<string, unknown>> | undefined {
  try {
    const found: unknown = JSON.parse(bytes.toString())
    return typeof found === 'object' && found !== null ? found : undefined
  } catch {
    return undefined
  }
}
