/** `static up`: the whole system on embedded storage, with certificates of its own. */
import { join } from 'node:path'
import { Command } from 'commander'
import { serverCertificate } from '../authority.ts'
import { ensurePrivateDirectory } from '../data-dir.ts'
import {
  addServeFlags,
  apiOptionsFrom,
  type Certificate,
  givenCertificate,
  runUntilStopped,
  type ServeFlags,
} from '../serve.ts'

export function upCommand(): Command {
  return addServeFlags(new Command('up'))
    .description('start the whole system on this machine: nothing else is needed')
    .addHelpText('after', '\nExample:\n  $ static up --data-dir ./data --api-port 9443')
    .action(up)
}

async function up(flags: ServeFlags): Promise<void> {
  await ensurePrivateDirectory(flags.dataDir)
  const certificate = async (): Promise<Certificate> =>
    (await givenCertificate(flags)) ?? (await serverCertificate(flags.dataDir, namesOf(flags)))
  const ca = flags.cert === undefined ? join(flags.dataDir, 'ca.pem') : undefined
  const [{ startApi }, options, first] = await Promise.all([
    import('@static/api'),
    apiOptionsFrom(flags),
    certificate(),
  ])
  const api = await startApi({ ...options, database: join(flags.dataDir, 'api.sqlite'), certificate: first })
  runUntilStopped(api, certificate)
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ ready: true, api_url: api.url, internal_url: api.internalUrl, ca, data_dir: flags.dataDir })}\n`
      : welcome(api.url, ca, flags.dataDir),
  )
}

/** The names that the certificate must cover beside those of loopback. */
function namesOf({ host, name }: ServeFlags): string[] {
  const bare = name?.replace(/:\d+$/, '')
  const wildcard = host === '0.0.0.0' || host === '::'
  return [...(wildcard ? [] : [host]), ...(bare === undefined ? [] : [bare])]
}

function welcome(url: string, ca: string | undefined, dataDir: string): string {
  const curl = ca === undefined ? 'curl' : `curl --cacert ${ca}`
  return `
Static is running. Stop it with Ctrl-C; everything is kept in ${dataDir}.

  API   ${url}
  docs  ${url}/docs
${ca === undefined ? '' : `  CA    ${ca}\n`}
Next, in another terminal:

  1. Sign up; the answer shows your API key, once:
     ${curl} -H 'Content-Type: application/json' -d '{"email":"you@example.com","password":"choose a good one"}' ${url}/v1/accounts

  2. Keep the key, and exchange it for a token:
     export STATIC_API_KEY=sk_live_…
     ${curl} -X POST -H "Authorization: Bearer $STATIC_API_KEY" ${url}/v1/tokens

  3. See your keys and your usage:
     ${curl} -H "Authorization: Bearer $STATIC_API_KEY" ${url}/v1/keys ${url}/v1/usage

ready
`
}
