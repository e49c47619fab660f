/** The web server of a domain as its own process, for `static-agents.json`: real TLS at a pinned address. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { DOMAIN_PATH } from '@static/sdk/trust'
import { issuerAuthority, type ISSUER_NAMES } from './web.ts'

/** A running server. */
export interface DomainServer extends AsyncDisposable {
  /** `127.0.0.1:PORT`, to be pinned. */
  readonly address: string
  /** The authority of its certificate, PEM, and the path of the same. */
  readonly ca: string
  readonly caFile: string
  /** Publishes the domain's `static-agents.json`. */
  publish(file: string): void
}

/** Starts the server of a domain, which has published nothing. */
export async function startDomainServer(domain: (typeof ISSUER_NAMES)[number]): Promise<DomainServer> {
  const authority = await issuerAuthority()
  const directory = mkdtempSync(join(tmpdir(), 'static-domain-'))
  const place = join(directory, domain, DOMAIN_PATH)
  mkdirSync(dirname(place), { recursive: true })
  const child = spawn(process.execPath, [resolve(import.meta.dirname, 'domain-child.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.write(`${JSON.stringify({ ...(await authority.issue([domain])), directory })}\n`)
  const [port] = (await once(createInterface(child.stdout), 'line')) as [string]
  return {
    address: `127.0.0.1:${port}`,
    ca: authority.cert,
    caFile: authority.path,
    publish: (file) => writeFileSync(place, file),
    [Symbol.asyncDispose]: async () => {
      const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
      child.stdin.end()
      await ended
      rmSync(directory, { recursive: true })
    },
  }
}
