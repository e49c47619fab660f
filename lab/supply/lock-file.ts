/** Third-party packages in package-lock.json: their hashes, licences and install scripts. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A package in the lock file. */
export interface LockedPackage {
  /** Its place, such as `node_modules/jose`. */
  readonly path: string
  readonly name: string
  readonly version: string
  readonly license: string
  /** Whether it is for one kind of machine only. */
  readonly isNative: boolean
  readonly faults: readonly string[]
}

interface Entry {
  readonly version?: string
  readonly license?: string
  readonly integrity?: string
  readonly inBundle?: boolean
  readonly resolved?: string
  readonly link?: boolean
  readonly hasInstallScript?: boolean
  readonly os?: readonly string[]
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/** Licences that allow use in a closed product, in one of several. MPL-2.0 is that of tools that are not shipped. */
const LICENSES = new Set([
  '0BSD',
  '(Apache-2.0 AND BSD-3-Clause)',
  'Apache-2.0',
  '(BSD-3-Clause OR GPL-2.0)',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'MPL-2.0',
  'Unlicense',
])
/**
 * Packages whose install scripts are not run (.npmrc): they include the files that the scripts would fetch or build.
 */
const WITH_SCRIPTS = new Set(['node_modules/@bufbuild/buf', 'node_modules/better-sqlite3-multiple-ciphers'])
const HASH = /^sha512-[A-Za-z0-9+/]{86}==$/

/** The packages of others in a lock file, with what is wrong with each. */
export function lockedPackages(root: string): LockedPackage[] {
  return Object.entries(entriesOf(root))
    .filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
    .map(([path, entry]) => ({
      path,
      name: path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
      version: entry.version ?? '',
      license: entry.license ?? '',
      isNative: entry.os !== undefined,
      faults: faultsOf(path, entry),
    }))
}

/**
 * The places of the packages that packages of this project need at run time. `without`: packages that are loaded only
 * with an option, and what they alone need.
 */
export function runtimePaths(
  root: string,
  workspaces: readonly string[],
  without: ReadonlySet<string> = new Set(),
): Set<string> {
  const entries = entriesOf(root)
  const found = new Set<string>()
  const visit = (path: string): void => {
    if (found.has(path)) return
    found.add(path)
    const { dependencies, optionalDependencies } = entries[path] ?? {}
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      if (without.has(name)) continue
      const place = resolvePackage(entries, path, name)
      if (place !== undefined) visit(place)
    }
  }
  for (const workspace of workspaces) visit(workspace)
  return new Set([...found].filter((path) => path.includes('node_modules/')))
}

/** Resolves as Node does: in the nearest `node_modules` folder above. */
function resolvePackage(entries: Readonly<Record<string, Entry>>, from: string, name: string): string | undefined {
  for (let folder = from; ;) {
    const path = join(folder, 'node_modules', name)
    const entry = entries[path]
    if (entry) return entry.link === true ? entry.resolved : path
    if (folder === '') return undefined
    folder = folder.includes('/node_modules/') ? folder.slice(0, folder.lastIndexOf('/node_modules/')) : ''
  }
}

function faultsOf(path: string, { integrity, inBundle, resolved, license, hasInstallScript }: Entry): string[] {
  return [
    ...(inBundle === true || HASH.test(integrity ?? '') ? [] : [`${path} has no SHA-512 hash`]),
    ...(resolved === undefined ? [] : [`${path} comes from ${resolved} instead of the registry`]),
    ...(LICENSES.has(license ?? '') ? [] : [`${path} has the licence ${license ?? '(none)'}`]),
    ...(hasInstallScript === true && !WITH_SCRIPTS.has(path) ? [`${path} has an install script`] : []),
  ]
}

function entriesOf(root: string): Readonly<Record<string, Entry>> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, Entry>>
  }
  return packages
}
