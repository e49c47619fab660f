/** A directory for one test file: certificates, settings and data of the servers it starts. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Authority } from '@static/cli/authority'
import { copyCertificates, makeCertificates } from '../certificates/authority.ts'

/** The directory and what every server in it shares. */
export interface Workspace extends Disposable {
  readonly path: string
  readonly authority: Authority
  /** The authority's certificate, PEM: what clients trust. */
  readonly ca: string
  /** The servers' certificate and key, PEM. */
  readonly cert: string
  readonly key: string
  /** The paths of these files. */
  readonly certFile: string
  readonly keyFile: string
  readonly caFile: string
  /** A relay's certificate without IP addresses, which QUIC refuses under an authority with name constraints. */
  readonly nameCertFile: string
  readonly nameKeyFile: string
  /** A new empty directory that only its owner can access. */
  directory(name: string): string
  /** Writes a file and returns its path. */
  file(name: string, content: string): string
}

/**
 * Creates a workspace; `using` removes it. A foreign workspace has its own authority, which the others do not trust.
 */
export async function makeWorkspace({ foreign = false }: { readonly foreign?: boolean } = {}): Promise<Workspace> {
  const path = mkdtempSync(join(tmpdir(), 'static-e2e-'))
  const make = foreign ? makeCertificates : copyCertificates
  const { authority, certificate, named } = await make(join(path, 'ca'))
  const { cert, key } = certificate
  const file = (name: string, content: string): string => {
    writeFileSync(join(path, name), content, { mode: 0o600 })
    return join(path, name)
  }
  return {
    path,
    authority,
    ca: authority.cert,
    cert,
    key,
    certFile: file('server.pem', cert),
    keyFile: file('server.key', key),
    caFile: authority.path,
    nameCertFile: file('relay.pem', named.cert),
    nameKeyFile: file('relay.key', named.key),
    directory(name) {
      mkdirSync(join(path, name), { mode: 0o700 })
      return join(path, name)
    },
    file,
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}
