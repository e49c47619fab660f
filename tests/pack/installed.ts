/** The packages as a user has them: packed, and installed by npm into an empty project. */
import { execFile, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** The checkout. */
export const ROOT: string = resolve(import.meta.dirname, '../..')

const start = promisify(execFile)
/** What the set-up has fetched: with it npm needs no network for the locked versions. */
const FROM_CACHE = [
  '--cache',
  join(ROOT, '.cache/npm'),
  '--prefer-offline',
  '--ignore-scripts',
  '--no-audit',
  '--no-fund',
  '--loglevel=error',
]

/** A package.json, as far as it is looked at. */
export interface Manifest {
  readonly name: string
  readonly version: string
  readonly exports?: Readonly<Record<string, unknown>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

/** A project with the packages. */
export interface Project {
  readonly path: string
  /** The names of our packages that came with the SDK. */
  readonly sdk: readonly string[]
  readonly packages: readonly InstalledPackage[]
  /** What `npm run pack` said of sizes. */
  readonly sizes: readonly string[]
}

/** A package of ours in it. */
export interface InstalledPackage {
  readonly path: string
  readonly manifest: Manifest
  /** Relative paths. */
  readonly files: readonly string[]
}

/** Packs every package and installs the tarballs. */
export async function installProject(path: string): Promise<Project> {
  const sizes = await installSdk(path)
  const home = join(path, 'node_modules/@static')
  const sdk = readdirSync(home)
  const tarballs = readdirSync(join(path, 'packed')).filter((name) => name.endsWith('.tgz'))
  await start('npm', ['install', ...tarballs.map((name) => `./packed/${name}`), ...FROM_CACHE], { cwd: path })
  const packages = readdirSync(home).map((name) => inspect(join(home, name)))
  return { path, sdk, packages, sizes }
}

/**
 * Packs every package and installs the SDK alone, by the line of the quickstart. Other people's packages come in the
 * versions of the checkout's lock, so that a release of theirs changes nothing here. Resolves to the sizes.
 */
export async function installSdk(path: string): Promise<readonly string[]> {
  // With a umask that would keep others from reading the files, if it reached them.
  const pack = ['-c', 'umask 077 && exec "$0" "$@"', process.execPath, join(ROOT, 'scripts/pack.ts')]
  const { stderr } = await start('bash', [...pack, join(path, 'packed')])
  const { packages: locked } = readJson('package-lock.json') as { packages: Record<string, { link?: boolean }> }
  const theirs = Object.entries(locked).filter(([at, { link }]) => at.startsWith('node_modules/') && link !== true)
  // The types of Node are what every program in TypeScript has that runs there.
  const types = '@types/node'
  const { devDependencies } = readJson('package.json') as { devDependencies: Record<string, string> }
  const root = { name: 'empty', version: '1.0.0', dependencies: { [types]: devDependencies[types] } }
  const lock = { ...root, lockfileVersion: 3, requires: true, packages: { '': root, ...Object.fromEntries(theirs) } }
  writeFileSync(join(path, 'package.json'), JSON.stringify({ ...root, private: true, type: 'module' }))
  writeFileSync(join(path, 'package-lock.json'), JSON.stringify(lock))
  const [line = ''] = /^npm install .*\.tgz$/m.exec(readFileSync(join(ROOT, 'docs/01-quickstart.md'), 'utf8')) ?? []
  const here = line.replace('~/static/.cache/pack/', './packed/')
  await start('bash', ['-c', `${here} ${FROM_CACHE.join(' ')}`], { cwd: path })
  return stderr.trim().split('\n')
}

function inspect(path: string): InstalledPackage {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const manifest = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as Manifest
  // npm puts packages of others in there of which it needs two versions.
  const own = files.map((file) => file.slice(path.length + 1)).filter((file) => !file.startsWith('node_modules/'))
  return { path, manifest, files: own }
}

/** The oldest Node that the packages say they run on, fetched from npm once; undefined when npm does not have it. */
export async function oldestNode(): Promise<string | undefined> {
  const locked = join(import.meta.dirname, 'oldest-node')
  const home = join(ROOT, '.cache/oldest-node')
  const binary = join(home, `node_modules/node-${process.platform}-${process.arch}/bin/node`)
  const lockOf = (folder: string): string => readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (existsSync(binary) && lockOf(home) === lockOf(locked)) return binary
  rmSync(home, { recursive: true, force: true })
  mkdirSync(dirname(home), { recursive: true })
  cpSync(locked, home, { recursive: true })
  try {
    await start('npm', ['ci', ...FROM_CACHE, '--fetch-retries=0'], { cwd: home, timeout: 60_000 })
  } catch {
    return undefined
  }
  return existsSync(binary) ? binary : undefined
}

/** A Node of this machine that the packages do not run on, such as Debian's; undefined if it has none. */
export function olderNode(): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/bin']
  return folders
    .map((folder) => join(folder, 'node'))
    .find((path) => {
      const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' })
      return Number(/^v(\d+)/.exec(stdout ?? '')?.[1]) < 24
    })
}

function readJson(name: string): unknown {
  return JSON.parse(readFileSync(join(ROOT, name), 'utf8'))
}
