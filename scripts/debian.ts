/** Installs Debian packages that the tests need. */
import { existsSync, globSync } from 'node:fs'
import { fail, run, say } from './step.ts'

/** Returns the file that matches `probe`, after installing the Debian package if there is none. */
export async function ensureDebian(name: string, probe: string, purpose: string): Promise<string> {
  const found = (): string | undefined => globSync(probe).sort().at(-1)
  const present = found()
  if (present !== undefined) return present
  if (!existsSync('/etc/debian_version') || process.getuid?.() !== 0) {
    fail(
      `${purpose} needs ${name}, which is not installed. Install it (on Debian: sudo apt-get install ${name}) and try again.`,
    )
  }
  say(`Installing the Debian package ${name} (once)`)
  const quiet = { DEBIAN_FRONTEND: 'noninteractive' }
  if ((await run('apt-get', ['update', '-qq'], quiet)) !== 0) fail('`apt-get update` failed; see its output above.')
  const words = ['install', '-y', '-qq', '--no-install-recommends', name]
  if ((await run('apt-get', words, quiet)) !== 0) fail(`apt-get could not install ${name}; see its output above.`)
  return found() ?? fail(`${name} is installed, but ${probe} does not exist.`)
}

/** Installs the tools that record packets in a separate network namespace. */
export async function ensureCapture(purpose: string): Promise<void> {
  await ensureDebian('tcpdump', '/usr/{bin,sbin}/tcpdump', purpose)
  await ensureDebian('iproute2', '/usr/{bin,sbin}/ip', purpose)
}
