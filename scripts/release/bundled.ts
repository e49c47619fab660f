/**
 * Packages with machine code, as far as Node needs them, which our packages contain. As their makers publish them they
 * take 55 MB, most of it for compilers and for systems without Node.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runtimePaths } from '../../lab/supply/lock-file.ts'

/** The packages in each of ours. */
export const BUNDLED: Readonly<Record<string, readonly string[]>> = {
  node: ['sodium-native'],
  sdk: ['better-sqlite3-multiple-ciphers'],
}
/** What is left out. */
export const LEFT_OUT = 'sources, build files, and machine code for Android, iOS and Bare'
/** Sources, build files, and machine code for Bare, the only runtime on Android and iOS. */
const UNUSED = /^(?:deps|src)(?:\/|$)|^binding\.gyp$|\.bare$|^prebuilds\/(?:android|ios)-/
/** The sources of a library that is part of the machine code. Their notices belong to it. */
const LIBRARY = 'deps/sqlite3/sqlite3.c'
/** Where its package.json lets npm pack it. */
const NOTICES = 'prebuilds/NOTICES.txt'
const COMMENT = /\/\*[^]*?\*\//g
const NOTICE = /copyright|licen[cs]e/i
/** In what belongs to nobody: most files of SQLite. */
const PUBLIC_DOMAIN = /disclaims copyright/

/** Whether a file of a package is left out. */
export function isLeftOut(path: string): boolean {
  return UNUSED.test(path)
}

/** The comments of a source that are about copyright and licences, each once. */
export function noticesIn(source: string): string {
  const notices = [...source.matchAll(COMMENT)]
    .map(([text]) => text)
    .filter((text) => NOTICE.test(text) && !PUBLIC_DOMAIN.test(text))
  return `${[...new Set(notices)].join('\n\n')}\n`
}

/**
 * Puts a package into `node_modules` of a folder, as far as Node needs it, in the locked version and from the locked
 * bytes; with the packages that it needs, because npm takes a bundle for complete.
 */
export function bundlePackage(root: string, name: string, folder: string): void {
  for (const path of runtimePaths(root, [`node_modules/${name}`])) bundleOne(root, path, join(folder, path))
}

function bundleOne(root: string, path: string, folder: string): void {
  const name = path.replace('node_modules/', '')
  const { version, integrity } = lockedEntry(root, path)
  mkdirSync(folder, { recursive: true })
  const words = ['pack', `${name}@${version}`, '--pack-destination', folder, '--cache', join(root, '.cache/npm')]
  const flags = ['--prefer-offline', '--ignore-scripts', '--json', '--loglevel=error']
  const [{ filename = '' } = {}] = JSON.parse(output('npm', [...words, ...flags], root)) as { filename?: string }[]
  const archive = join(folder, filename)
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`
  if (found !== integrity) throw new Error(`npm gave ${name} ${version} with ${found} instead of ${integrity}.`)
  output('tar', ['-xzf', archive, '--strip-components=1', '-C', folder], root)
  rmSync(archive)
  const library = join(folder, LIBRARY)
  if (existsSync(library)) writeFileSync(join(folder, NOTICES), noticesIn(readFileSync(library, 'utf8')))
  if (!Object.values(BUNDLED).flat().includes(name)) return
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    if (isLeftOut(file)) rmSync(join(folder, file), { recursive: true, force: true })
}

function lockedEntry(root: string, path: string): { readonly version: string; readonly integrity: string } {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly version: string; readonly integrity: string }>>
  }
  const entry = packages[path]
  if (entry === undefined) throw new Error(`package-lock.json has no ${path}.`)
  return entry
}

function output(program: string, words: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, words, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${words.join(' ')} failed: ${error?.message ?? stderr}`)
  return stdout
}
