/** `static api`: only the HTTP API, on SQLite or PostgreSQL, with the operator's certificate. */
import { join } from 'node:path'
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { parseEndpoint } from '@static/sdk/account'
import { apiOptionsFrom } from '../server/api-options.ts'
import { givenCertificate } from '../server/certificate.ts'
import { ensurePrivateDirectory } from '../server/data-dir.ts'
import { databaseOf } from '../server/database.ts'
import { addApiServerFlags, addStateFlags, type ApiServerFlags } from '../server/flags.ts'
import { runUntilStopped } from '../server/run-until-stopped.ts'

interface Flags extends ApiServerFlags {
  readonly database?: string
  readonly insecureHttp?: boolean
  readonly relayUrl?: readonly string[]
}

export function apiCommand(): Command {
  return addApiServerFlags(addStateFlags(new Command('api')))
    .option(
      '--database <url>',
      'postgres://… or a SQLite file; prefer STATIC_DATABASE (default: api.sqlite in the data directory)',
    )
    .option(
      '--relay-url <url...>',
      'endpoints of the relay to announce to clients, the preferred one first: quic://relay.example.com:4433, https://relay.example.com:5000',
    )
    .option('--insecure-http', 'serve plain HTTP, on loopback only, for development')
    .addHelpText(
      'after',
      '\nExample:\n  $ STATIC_DATABASE=postgres://… static api --name api.example.com --cert chain.pem --key key.pem',
    )
    .action(api)
}

async function api(flags: Flags): Promise<void> {
  ensurePrivateDirectory(flags.dataDir)
  const certificate = await givenCertificate(flags)
  if (!certificate && !flags.insecureHttp) {
    throw StaticError.of(
      'invalid_request',
      '--cert and --key are required. Only `static up` creates its own certificate.',
    )
  }
  if (!certificate) process.stderr.write('static: serving plain HTTP: for development on this machine only.\n')
  const options = await apiOptionsFrom(flags)
  // A relay that clients could not dial is found here, not by them.
  const relay = flags.relayUrl?.map((text) => parseEndpoint(text).url) ?? []
  const { startApi } = await import('@static/api')
  const database = databaseOf(flags.database) ?? join(flags.dataDir, 'api.sqlite')
  const running = await startApi({ ...options, database, certificate, relay: Promise.resolve({ relay }) })
  runUntilStopped([running], () => givenCertificate(flags), [flags.cert, flags.key])
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ ready: true, api_url: running.url, internal_url: running.internalUrl })}\n`
      : `API ${running.url}\nready\n`,
  )
}
