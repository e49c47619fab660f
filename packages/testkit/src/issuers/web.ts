/** The web server of issuers on this machine: real TLS for their real names, at a pinned address and authority. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { mkdtempSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Authority, openAuthority } from '@static/cli/authority'

/** The names for which the server has a certificate, besides its address. */
export const ISSUER_NAMES = ['acme.example', 'idp.example', 'token.actions.githubusercontent.com'] as const

/** How the server answers a path. */
export type Page = string | ((request: IncomingMessage, response: ServerResponse) => void)

let shared: Promise<Authority> | undefined

/** The authority of all issuers of this process. */
export function issuerAuthority(): Promise<Authority> {
  shared ??= openAuthority({ directory: mkdtempSync(join(tmpdir(), 'static-issuers-')), names: ISSUER_NAMES })
  return shared
}

/** A running server. */
export interface IssuerWeb extends AsyncDisposable {
  /** `127.0.0.1:PORT`, to be pinned. */
  readonly address: string
  /** The authority of its certificate, PEM, and the path of the same. */
  readonly ca: string
  readonly caFile: string
  /** What it serves, by host and path: `acme.example/.well-known/static-agents.json`. */
  readonly pages: Map<string, Page>
  /** What was asked for, in the same form. */
  readonly requests: string[]
}

/** Starts a server. */
export async function startIssuerWeb(): Promise<IssuerWeb> {
  const authority = await issuerAuthority()
  const pages = new Map<string, Page>()
  const requests: string[] = []
  const server = createServer(await authority.issue([...ISSUER_NAMES, '127.0.0.1']), (request, response) => {
    const place = `${request.headers.host}${request.url?.split('?')[0]}`
    requests.push(place)
    const page = pages.get(place)
    if (typeof page === 'function') page(request, response)
    else response.writeHead(page === undefined ? 404 : 200).end(page ?? 'not here')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    address: `127.0.0.1:${port}`,
    ca: authority.cert,
    caFile: authority.path,
    pages,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
