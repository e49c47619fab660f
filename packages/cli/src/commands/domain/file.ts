/** The file that a domain publishes: written here, and fetched as a stranger would. */
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'
import type { DomainStore, KeySet } from '@static/sdk/trust'
import { withProgress } from '../../terminal/progress.ts'
import { type FetchFlags, pinOf } from '../trust.ts'

export const FILE = 'static-agents.json'

export interface FileFlags {
  readonly out: string
  readonly json?: boolean
}

export function addFileFlag(command: Command): Command {
  return command.option('--out <file>', 'where to write the file to publish', FILE).option('--json', 'print JSON')
}

/** What a domain has published, fetched as a stranger would. */
export async function published(
  domain: string,
  flags: FetchFlags,
): Promise<{ readonly address: string; readonly found: KeySet }> {
  const { fetchKeys, parseRoot, proxyOf, readKeys } = await import('@static/sdk/trust')
  const pin = await pinOf(flags)
  const root = parseRoot(domain, pin === undefined ? {} : { pin })
  const address = await addressOf(domain)
  const fetched = await withProgress(`Fetching ${address}`, fetchKeys(root, proxyOf(process.env)))
  if ('failed' in fetched)
    throw StaticError.of(
      'unavailable',
      `${address} is out of reach: ${fetched.failed}. Upload the file there. If its server is not on the internet, pass --address and --ca.`,
    )
  const found = readKeys(root, fetched.bytes)
  if (typeof found === 'string')
    throw StaticError.of(
      'invalid_request',
      `${address} ${found}. Upload the file that \`static domain init ${domain}\` writes.`,
    )
  return { address, found }
}

/** Writes the file to publish. */
export async function publish(
  store: DomainStore,
  file: string,
): Promise<{ readonly keys: readonly string[]; readonly address: string }> {
  const { thumbprintOf } = await import('@static/sdk/trust')
  const now = Date.now()
  store.sweep(now)
  replaceFile(file, store.publicFile(now), 0o644)
  return { keys: store.keySet(now).keys.map(thumbprintOf), address: await addressOf(store.domain) }
}

export async function addressOf(domain: string): Promise<string> {
  const { DOMAIN_PATH } = await import('@static/sdk/trust')
  return `https://${domain}${DOMAIN_PATH}`
}

/** Keeps a file of something else from being overwritten. */
export function checkTarget(out: string, domain: string): string {
  const file = resolve(out)
  if (!existsSync(file) || readFileSync(file, 'utf8').includes(`"issuer": "https://${domain}"`)) return file
  throw StaticError.of('invalid_request', `${file} exists and is not the file of ${domain}. Choose another with --out.`)
}

export async function checkDomain(given: string): Promise<string> {
  const { domainOf } = await import('@static/sdk/trust')
  const domain = domainOf(given)
  if (domain !== undefined) return domain
  throw StaticError.of('invalid_request', `${JSON.stringify(given)} is not a domain. Use a name like acme.example.`)
}

export async function storeOf(domain: string): Promise<DomainStore> {
  const trust = await import('@static/sdk/trust')
  return new trust.DomainStore(userPlaces().domains, domain)
}
