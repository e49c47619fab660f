/** The NATS server for the tests: the installed one, else Debian's, unpacked into the cache; nothing is installed. */
import { existsSync, globSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fail, run, say } from './step.ts'

const INSTALLED = '/usr/{bin,sbin,local/bin}/nats-server'
const HELP = 'The test suite needs nats-server. Install it (on Debian: apt-get install nats-server) and try again.'

/** Returns the path of the program. */
export async function ensureNats(cache: string): Promise<string> {
  const [installed] = globSync(INSTALLED)
  if (installed !== undefined) return installed
  const folder = join(cache, 'nats')
  const program = join(folder, 'usr/sbin/nats-server')
  if (existsSync(program)) return program
  if (!existsSync('/etc/debian_version')) fail(HELP)
  say('Unpacking the Debian package nats-server (once)')
  mkdirSync(folder, { recursive: true })
  const script = 'cd "$0" && apt-get download -qq nats-server && dpkg-deb -x nats-server_*.deb .'
  if ((await run('sh', ['-c', script, folder])) !== 0 || !existsSync(program)) fail(HELP)
  return program
}
