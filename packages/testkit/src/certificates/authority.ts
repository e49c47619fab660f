/** Certificates for servers on this machine. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Authority, openAuthority } from '@static/cli/authority'

/** A certificate and its key, PEM. */
export interface Pair {
  readonly cert: string
  readonly key: string
}

/** Shared by all tests of a process. */
export interface Certificates {
  readonly authority: Authority
  /** For this machine's names and addresses. */
  readonly certificate: Pair
}

let shared: Promise<Certificates> | undefined

/** One authority for all tests of a process. */
export function certificates(): Promise<Certificates> {
  shared ??= (async () => {
    const authority = await newAuthority()
    return { authority, certificate: await authority.issue(['localhost', '127.0.0.1', '::1']) }
  })()
  return shared
}

/** Creates a separate authority. */
export async function newAuthority(now?: () => Date): Promise<Authority> {
  const directory = mkdtempSync(join(tmpdir(), 'static-test-ca-'))
  process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
  return await openAuthority({ directory, names: ['relay.example'], ...(now === undefined ? {} : { now }) })
}
