/** Fetches the keys of a root from the address that follows from it (SPEC.md, 7.3), or reads its file of keys. */
import { open } from 'node:fs/promises'
import { isRecord } from '../../proofs/json.ts'
import type { Fetched } from '../../proofs/key-state.ts'
import { MAX_KEYS_BYTES } from '../../proofs/keys.ts'
import { issuerOfRoot, type Root } from '../../proofs/roots.ts'
import { fetchHttpsFile, type Way } from './https-file.ts'
import type { Proxy } from './proxy.ts'

/** Where a domain publishes the keys of its statements. */
export const DOMAIN_PATH = '/.well-known/static-agents.json'
const GITHUB_PATH = '/.well-known/jwks'
const DISCOVERY_PATH = '/.well-known/openid-configuration'
const MOST_WORDS = 300
/** What Node adds to errors of certificates: a flag of Node, which users of Static do not start themselves. */
const NODE_HINT = /; if the root CA is installed locally, try running Node\.js with --use-system-ca$/

/** The file of the keys of a root, or why it is out of reach. */
export async function fetchKeys(root: Root, proxy: Proxy | undefined): Promise<Fetched> {
  try {
    if (root.keys !== undefined) return await start(root.keys)
    return { bytes: await fetched(root, { pin: root.pin, proxy }) }
  } catch (error) {
    // It becomes part of what is said about a member, and a server may have chosen some of it.
    const words = (error instanceof Error ? error.message : String(error)).replace(NODE_HINT, '')
    return { failed: words.replaceAll(/[^ -~]/g, '?').slice(0, MOST_WORDS) }
  }
}

async function fetched(root: Root, way: Way): Promise<Uint8Array> {
  const issuer = issuerOfRoot(root) ?? ''
  if (root.kind === 'domain') return await fetchHttpsFile(new URL(DOMAIN_PATH, issuer), way)
  if (root.kind === 'github') return await fetchHttpsFile(new URL(GITHUB_PATH, issuer), way)
  const discovery: unknown = jsonOf(await fetchHttpsFile(new URL(`${issuer.replace(/\/$/, '')}${DISCOVERY_PATH}`), way))
  const { issuer: named, jwks_uri: address } = isRecord(discovery) ? discovery : {}
  if (named !== issuer) throw new Error('the configuration of its issuer names another issuer')
  if (typeof address !== 'string' || !URL.canParse(address))
    throw new Error('the configuration of its issuer names no `jwks_uri`')
  const url = new URL(address)
  // The pinned address is that of one host.
  if (root.pin?.address !== undefined && url.host !== new URL(issuer).host) {
    throw new Error(`its keys are on another host, ${url.host}, for which no address is pinned`)
  }
  return await fetchHttpsFile(url, way)
}

/** A file, or as much of it as shows that it is too long. */
async function start(path: string): Promise<Fetched> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAX_KEYS_BYTES + 1), 0, MAX_KEYS_BYTES + 1, 0)
    return { bytes: buffer.subarray(0, bytesRead), writtenAt: (await file.stat()).mtimeMs }
  } finally {
    await file.close()
  }
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    return undefined
  }
}
