/** Certificates for servers on this machine. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Authority, openAuthority, serverCertificate } from '@static/cli/authority'

/** A certificate and its key, PEM. */
export interface Pair {
  readonly cert: string
  readonly key: string
}

/** An authority and what it has issued for servers on this machine. */
export interface Certificates {
  readonly authority: Authority
  /** For this machine's names and addresses. */
  readonly certificate: Pair
  /** For its names only: QUIC refuses addresses under an authority with name constraints. */
  readonly named: Pair
  /** The certificate with which a proxy authenticates to a relay. */
  readonly client: Pair
}

const NAMES = ['relay.example']

let shared: Promise<Certificates> | undefined

/** One authority for all tests of a process, and of a whole run in which `npm test` has made it. */
export function certificates(): Promise<Certificates> {
  shared ??= makeCertificates(process.env['STATIC_TEST_CERTIFICATES'] ?? temporaryDirectory())
  return shared
}

/** The same certificates, but in a directory that the caller may change. */
export async function copyCertificates(directory: string): Promise<Certificates> {
  const { authority, ...issued } = await certificates()
  cpSync(dirname(authority.path), directory, { recursive: true })
  return { authority: await openAuthority({ directory, names: NAMES }), ...issued }
}

/** Opens the certificates in a directory. Creates those that are missing, with a library that takes long to load. */
export async function makeCertificates(directory: string): Promise<Certificates> {
  const authority = await openAuthority({ directory, names: NAMES })
  return {
    authority,
    certificate: await serverCertificate(directory, []),
    named: await serverCertificate(directory, [], { file: 'named', addresses: false }),
    client: await clientCertificate(authority, join(directory, 'client.json')),
  }
}

async function clientCertificate(authority: Authority, file: string): Promise<Pair> {
  if (!existsSync(file)) writeFileSync(file, JSON.stringify(await authority.issueClient()), { mode: 0o600 })
  return JSON.parse(readFileSync(file, 'utf8')) as Pair
}

/** Creates a separate authority. */
export async function newAuthority(now?: () => Date): Promise<Authority> {
  return await openAuthority({ directory: temporaryDirectory(), names: NAMES, ...(now === undefined ? {} : { now }) })
}

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-test-ca-'))
  process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
  return directory
}
