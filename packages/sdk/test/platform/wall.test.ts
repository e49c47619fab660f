/**
 * The inside of the SDK reaches Node, and packages with machine code, only through `#platform/*`: in a browser these are
 * other modules. Follows every import from there that is left when types are gone, even into other packages.
 */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync, realpathSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { parseSync } from 'oxc-parser'

const root = resolve(import.meta.dirname, '../../../..')
const source = join(root, 'packages/sdk/src')
const INSIDE = [
  'channel',
  'files',
  'approvals',
  'joining',
  'admitting',
  'agent',
  'session',
  'proofs',
  'mls',
  'store/rows',
  'store/ring',
]
/** The conditions of `exports` that every platform has. */
const CONDITIONS = ['import', 'default']

type Target = string | null | { readonly [condition: string]: Target }

interface Manifest {
  readonly exports?: string | Readonly<Record<string, Target>>
  readonly main?: string
}

/** What a module imports when it runs. */
function importsOf(path: string): string[] {
  const { module } = parseSync(path, readFileSync(path, 'utf8'))
  const runs = ({ isType }: { readonly isType: boolean }): boolean => !isType
  return [
    ...module.staticImports.flatMap(({ entries, moduleRequest }) =>
      entries.length === 0 || entries.some(runs) ? [moduleRequest.value] : [],
    ),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.filter(runs).flatMap(({ moduleRequest }) => moduleRequest?.value ?? []),
    ),
  ]
}

/** The path that a target of `exports` leads to. */
function chosen(target: Target | undefined): string | undefined {
  if (typeof target === 'string') return target
  if (!target) return undefined
  return chosen(target[CONDITIONS.find((name) => name in target) ?? ''])
}

/** The file of an import of another package. */
function resolved(specifier: string, importer: string): string {
  const manifestPath = findPackageJSON(specifier, pathToFileURL(importer))
  assert.ok(manifestPath, `${specifier} in ${importer}`)
  const home = dirname(realpathSync(manifestPath))
  const { exports = {}, main = 'index.js' } = JSON.parse(readFileSync(manifestPath, 'utf8')) as Manifest
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
  const entry = `.${specifier.slice(name.length)}`
  const table: Readonly<Record<string, Target>> = typeof exports === 'string' ? { '.': exports } : exports
  const all = Object.entries(table).map(([key, target]) => {
    const [start = '', end = ''] = key.split('*')
    if (!key.includes('*')) return key === entry ? chosen(target) : undefined
    if (!entry.startsWith(start) || !entry.endsWith(end)) return undefined
    return chosen(target)?.replaceAll('*', entry.slice(start.length, entry.length - end.length))
  })
  const path = join(home, all.find((each) => each !== undefined) ?? main)
  assert.ok(existsSync(path), `${specifier} in ${importer}`)
  return path
}

/** The packages that Node alone can load: they have machine code. */
const NATIVE = /^(sodium-native|better-sqlite3-multiple-ciphers|@currentspace\/http3|@node-rs\/argon2)(\/|$)/
const MODULES_OF_NODE = /^(node:|(crypto|fs|net|path|url|util|module|os|stream|buffer|events|tls|dns|worker_threads)$)/

/** Every way from the inside to Node, with the modules in between. */
function breaches(): string[] {
  const from = new Map<string, string | undefined>()
  const found: string[] = []
  const left = INSIDE.flatMap((folder) => globSync(join(source, folder, '**/*.ts')))
  for (const path of left) from.set(path, undefined)
  const wayTo = (path: string | undefined): string[] =>
    path === undefined ? [] : [...wayTo(from.get(path)), relative(root, path)]
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    for (const specifier of importsOf(path)) {
      if (specifier.startsWith('#platform/')) continue
      if (MODULES_OF_NODE.test(specifier) || NATIVE.test(specifier)) {
        found.push([...wayTo(path), specifier].join(' → '))
        continue
      }
      const next = specifier.startsWith('.') ? resolve(dirname(path), specifier) : resolved(specifier, path)
      if (from.has(next)) continue
      from.set(next, path)
      left.push(next)
    }
  }
  // That many there are at least: an empty walk would find nothing.
  assert.ok(from.size > 300, `${from.size} modules`)
  return found
}

test('the inner folders reach Node only through the platform', () => {
  assert.deepEqual(breaches(), [])
})

test('every import of the platform leads to a file, by a default at least', () => {
  const { imports } = JSON.parse(readFileSync(join(source, '../package.json'), 'utf8')) as {
    readonly imports: Readonly<Record<string, Readonly<Record<string, string>>>>
  }
  assert.deepEqual(Object.keys(imports), ['#platform/crypto', '#platform/turn'])
  for (const [name, paths] of Object.entries(imports)) {
    assert.equal(Object.keys(paths).at(-1), 'default', name)
    for (const path of Object.values(paths)) assert.ok(existsSync(join(source, '..', path)), path)
  }
})
