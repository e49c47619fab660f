/** A real OIDC issuer as its own process: `https://idp.example`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:https'
import { createInterface } from 'node:readline'
import { resolve } from 'node:path'
import { json } from 'node:stream/consumers'
import { issuerAuthority } from './web.ts'

/** A running issuer. */
export interface OidcIssuer extends AsyncDisposable {
  readonly issuer: 'https://idp.example'
  /** The subject of its tokens. */
  readonly subject: 'billing'
  /** `127.0.0.1:PORT`, to be pinned. */
  readonly address: string
  readonly ca: string
  readonly caFile: string
  /** A token for an audience; with `access`, an access token. */
  mint(audience: string, options?: { readonly access?: boolean }): Promise<string>
}

/** Has the issuer at a port make a token for an audience; with `access`, an access token. */
export async function mintToken(
  { port, ca }: { readonly port: number; readonly ca: string },
  audience: string,
  { access = false }: { readonly access?: boolean } = {},
): Promise<string> {
  const sent = request({
    host: '127.0.0.1',
    port,
    servername: 'idp.example',
    path: `/token${access ? '?access=1' : ''}`,
    method: 'POST',
    ca,
    agent: false,
    headers: { host: 'idp.example', 'content-type': 'application/x-www-form-urlencoded' },
  })
  const credentials = { client_id: 'billing', client_secret: 'only-for-tests' }
  const form = new URLSearchParams({ ...credentials, grant_type: 'client_credentials', resource: audience })
  sent.end(form.toString())
  const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream]
  const answer = (await json(response)) as { readonly access_token?: string }
  if (answer.access_token === undefined) throw new Error(JSON.stringify(answer))
  return answer.access_token
}

/** Starts the issuer. */
export async function startOidcIssuer(): Promise<OidcIssuer> {
  const authority = await issuerAuthority()
  const child = spawn(process.execPath, [resolve(import.meta.dirname, 'oidc-child.mjs')], {
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  child.stdin.end(JSON.stringify(await authority.issue(['idp.example'])))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const { port } = JSON.parse(line) as { readonly port: number }
  return {
    issuer: 'https://idp.example',
    subject: 'billing',
    address: `127.0.0.1:${port}`,
    ca: authority.cert,
    caFile: authority.path,
    mint: async (audience, options) => await mintToken({ port, ca: authority.cert }, audience, options),
    [Symbol.asyncDispose]: async () => {
      child.kill()
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}
