/** Debian packages that the tests need. */
import { existsSync, globSync, mkdirSync, rmSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { fail, run, say } from './step.ts'

/** Where packages are unpacked that are not installed. */
export const UNPACKED: string = resolve(import.meta.dirname, '../.cache/debian')

/** Lists of packages, where those of the machine do not have what is needed. */
const LISTS = join(UNPACKED, 'lists')

/**
 * Returns the file that matches `probe`. If there is none, root installs the Debian package; for others it is unpacked
 * below `.cache`, with all that it depends on.
 */
export async function ensureDebian(name: string, probe: string, purpose: string): Promise<string> {
  const found = (): string | undefined => globSync(probe).sort().at(-1)
  const present = found()
  if (present !== undefined) return present
  if (!existsSync('/etc/debian_version')) {
    fail(`${purpose} needs ${name}, which is not installed. Install it and try again.`)
  }
  if (process.getuid?.() !== 0) return unpackDebian(name, probe.slice(1))
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
 * Unpacks a Debian package, and what it depends on and is not installed, below `.cache`, and returns the file that
 * matches `probe`. Needs no rights. Also for servers, which a package that is installed would start at once.
 */
export async function unpackDebian(name: string, probe: string): Promise<string> {
  // Some packages have /bin where machines have /usr/bin.
  const probes = [probe, probe.replace(/^usr\//, '')].map((each) => join(UNPACKED, each))
  const found = (): string | undefined => globSync(probes).sort().at(-1)
  if (found() === undefined) {
    say(`Unpacking the Debian package ${name} below .cache (once)`)
    const archives = join(UNPACKED, 'archives')
    mkdirSync(join(archives, 'partial'), { recursive: true })
    // The lists of this machine do where they have the package.
    const isFetched = (!existsSync(LISTS) && (await download(name, []))) || (await downloadWithOwnLists(name))
    if (!isFetched) fail(`apt-get could not fetch ${name}; see its output above.`)
    for (const file of globSync(join(archives, '*.deb'))) {
      if ((await run('dpkg-deb', ['-x', file, UNPACKED])) !== 0) fail(`${file} cannot be unpacked.`)
    }
    rmSync(archives, { recursive: true })
  }
  findUnpacked()
  return found() ?? fail(`${name} was unpacked, but there is no ${probe} in ${UNPACKED}.`)
}

/** Lets the programs that this process starts find each other, their libraries and Python modules in the folder. */
function findUnpacked(): void {
  prepend('PATH', 'usr/{bin,sbin}', 'bin', 'sbin')
  prepend('LD_LIBRARY_PATH', '{usr/,}lib/*-linux-gnu{,/pulseaudio}')
  prepend('PYTHONPATH', 'usr/lib/python3/dist-packages', 'usr/lib/python3.*{,/lib-dynload}')
  // The configuration and the fonts.
  if (existsSync(join(UNPACKED, 'etc/fonts'))) process.env['FONTCONFIG_SYSROOT'] = UNPACKED
}

function prepend(variable: string, ...folders: readonly string[]): void {
  const before = (process.env[variable] ?? '').split(delimiter).filter((path) => path !== '')
  const unpacked = globSync(folders.map((folder) => join(UNPACKED, folder)))
  if (unpacked.length > 0) process.env[variable] = [...new Set([...unpacked, ...before])].join(delimiter)
}

/** Fetches a package and what it needs besides what is installed, with the lists of packages that this machine has. */
async function download(name: string, options: readonly string[]): Promise<boolean> {
  const words = ['install', '--download-only', '-y', '-qq', '--no-install-recommends']
  const own = [
    '-oDebug::NoLocking=1',
    `-oDir::Cache=${UNPACKED}`,
    `-oDir::Cache::archives=${join(UNPACKED, 'archives')}`,
  ]
  return (await run('apt-get', [...words, ...own, ...options, name])) === 0
}

/** The same with new lists: those of this machine may be old, or were deleted to save space. */
async function downloadWithOwnLists(name: string): Promise<boolean> {
  const own = ['-oDebug::NoLocking=1', `-oDir::Cache=${UNPACKED}`, `-oDir::State::lists=${LISTS}`]
  if (existsSync(LISTS) && (await download(name, own))) return true
  mkdirSync(join(LISTS, 'partial'), { recursive: true })
  return (await run('apt-get', ['update', '-qq', ...own])) === 0 && (await download(name, own))
}

/** Gets the tools that record packets in a separate network namespace. */
export async function ensureCapture(purpose: string): Promise<void> {
  await ensureDebian('tcpdump', '/usr/{bin,sbin}/tcpdump', purpose)
  await ensureDebian('iproute2', '/usr/{bin,sbin}/ip', purpose)
}
