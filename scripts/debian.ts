/** Installs Debian packages that the tests need. */
import { existsSync, globSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
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

/** Installs a Debian package that the tests can do without, if that is possible. */
export async function tryDebian(name: string, probe: string): Promise<void> {
  if (existsSync(probe) || !existsSync('/etc/debian_version') || process.getuid?.() !== 0) return
  say(`Installing the Debian package ${name} (once; without it the tests take longer)`)
  const words = ['install', '-y', '-qq', '--no-install-recommends', '--no-remove', '-oAcquire::http::Timeout=10', name]
  await run('apt-get', words, { DEBIAN_FRONTEND: 'noninteractive' })
}

/**
 * Unpacks Debian packages into a folder, without installing them, and returns the file that matches `probe`: for servers
 * that a package would start at once.
 */
export async function unpackDebian(names: readonly string[], probe: string, folder: string): Promise<string> {
  const found = (): string | undefined => globSync(join(folder, probe)).sort().at(-1)
  const present = found()
  if (present !== undefined) return present
  say(`Fetching the Debian packages ${names.join(', ')} (once)`)
  mkdirSync(folder, { recursive: true })
  const inFolder = (line: string): Promise<number> => run('sh', ['-c', `cd "$0" && ${line}`, folder])
  if ((await inFolder(`apt-get download -qq ${names.join(' ')}`)) !== 0) {
    fail(`apt-get could not fetch ${names.join(', ')}; see its output above.`)
  }
  await inFolder('for file in *.deb; do dpkg-deb -x "$file" . && rm "$file"; done')
  return found() ?? fail(`${names.join(', ')} were unpacked, but there is no ${probe} in ${folder}.`)
}

/** Installs the tools that record packets in a separate network namespace. */
export async function ensureCapture(purpose: string): Promise<void> {
  await ensureDebian('tcpdump', '/usr/{bin,sbin}/tcpdump', purpose)
  await ensureDebian('iproute2', '/usr/{bin,sbin}/ip', purpose)
}
