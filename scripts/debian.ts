/** Debian packages that the tests need: installed when they are missing. */
import { existsSync, globSync } from 'node:fs'
import { fail, run, say } from './step.ts'

/** Makes sure that a file that matches `probe` exists, by installing a Debian package if it does not. */
export async function ensureDebian(name: string, probe: string, purpose: string): Promise<string> {
  const found = (): string | undefined => globSync(probe).sort().at(-1)
  const present = found()
  if (present !== undefined) return present
  if (!existsSync('/etc/debian_version') || process.getuid?.() !== 0) {
    fail(`${purpose} needs ${name}: install it (on Debian: sudo apt-get install ${name}) and try again.`)
  }
  say(`Installing the Debian package ${name} (once)`)
  const quiet = { DEBIAN_FRONTEND: 'noninteractive' }
  if ((await run('apt-get', ['update', '-qq'], quiet)) !== 0) fail('apt-get could not read the package lists.')
  const words = ['install', '-y', '-qq', '--no-install-recommends', name]
  if ((await run('apt-get', words, quiet)) !== 0) fail(`apt-get could not install ${name}.`)
  return found() ?? fail(`${name} is installed, but ${probe} does not exist.`)
}

/** What records packets in a network of its own needs. */
export async function ensureCapture(purpose: string): Promise<void> {
  await ensureDebian('tcpdump', '/usr/{bin,sbin}/tcpdump', purpose)
  await ensureDebian('iproute2', '/usr/{bin,sbin}/ip', purpose)
}
