/** The NATS server for the tests: the installed one, else Debian's, unpacked below `.cache`; nothing is installed. */
import { existsSync, globSync } from 'node:fs'
import { unpackDebian } from './debian.ts'
import { fail } from './step.ts'

const INSTALLED = '/usr/{bin,sbin,local/bin}/nats-server'

/** Returns the path of the program. */
export async function ensureNats(): Promise<string> {
  const [installed] = globSync(INSTALLED)
  if (installed !== undefined) return installed
  if (!existsSync('/etc/debian_version')) fail('The tests need nats-server. Install it and try again.')
  return unpackDebian('nats-server', 'usr/sbin/nats-server')
}
