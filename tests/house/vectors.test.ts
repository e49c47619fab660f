/**
 * Authors of a client need vectors to test it against SPEC.md: everything that is signed, hashed or derived under a context has one,
 * SPEC.md names the context, and a test reads the file. Frames and cells: packages/sdk/test/vectors, packages/protocol/test/vectors.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'

const ROOT = resolve(import.meta.dirname, '../..')
const VECTORS = join(ROOT, 'tests/vectors')
/** The packages that sign, hash or derive. Texts of the others that begin with `static` are commands. */
const SOURCES = 'packages/{protocol,node,sdk,relay,api,a2a}/src/**/*.ts'
const ALPN = 'static-relay/1'

/** What begins like a context and needs no vector, because no other program makes or checks it. */
const OWN: Readonly<Record<string, string>> = {
  [ALPN]: 'the name of the protocol',
  'static relay': "the name of a relay's connection to NATS",
  'static relay.key': 'the fingerprint of a file in the database of its relay',
  'static-relay/1 challenge': 'a challenge that the relay makes and checks itself',
  'static signing key': 'a key that the API seals and opens itself',
  'static rate windows': 'names of rows that the API makes itself',
  'static devices': 'a MAC in a cookie that the API makes and checks itself',
  'static channel accept-new-key *': 'a command',
  'static domain rotate *': 'a command',
}

/** The contexts in a line of source. Of a template, what is before its first value, and a star. */
function contextsIn(line: string): string[] {
  if (/^\s*(\*|\/\/|\/\*)/.test(line)) return []
  const text = line.replaceAll('${ALPN}', ALPN)
  const literal = /(?<![\\\w])(['"`])((?:\\0)?static(?: |-[a-z]+\/\d)[^'"`\\$]*)(\$?)/g
  return [...text.matchAll(literal)]
    .filter(({ index }) => (text.slice(0, index).split("'").length - 1) % 2 === 0)
    .map(([, , context = '', value = '']) => context.replace('\\0', '') + value.replace('$', '*'))
}

/** Whether a vector shows what a context in the source stands for. */
function fits(context: string, shown: string): boolean {
  return context.endsWith('*') ? shown.startsWith(context.slice(0, -1)) : shown === context
}

/** The values of all fields with a name, however deep. */
function valuesOf(value: unknown, name: string): unknown[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [...(key === name ? [inner] : []), ...valuesOf(inner, name)])
}

const sources = globSync(SOURCES, { cwd: ROOT }).map((path) => readFileSync(join(ROOT, path), 'utf8'))
const files = globSync('*.json', { cwd: VECTORS })
const vectors = files.map((file): unknown => JSON.parse(readFileSync(join(VECTORS, file), 'utf8')))
const inSource = new Set(sources.flatMap((text) => text.split('\n').flatMap(contextsIn)))
const inVectors = new Set(vectors.flatMap((vector) => valuesOf(vector, 'context').map(String)))

test('contexts are found where they are written', () => {
  assert.deepEqual(contextsIn("  return signedBytes('static log 1', [a])"), ['static log 1'])
  assert.deepEqual(contextsIn('  return signedBytes(`${ALPN} leave`, [a])'), ['static-relay/1 leave'])
  assert.deepEqual(contextsIn("    .update('static-bus/1\\0')"), ['static-bus/1'])
  assert.deepEqual(contextsIn("const FOUNDER = utf8('\\0static founder')"), ['static founder'])
  assert.deepEqual(contextsIn('  derive(`static invite 1 ${label}`)'), ['static invite 1 *'])
  assert.deepEqual(contextsIn("  'Run `static signup` first.'"), [])
  assert.deepEqual(contextsIn(' * signs `static log 1`'), [])
})

test('every context of a signature, a hash or a key has a vector, and every vector a context in use', () => {
  const isShown = (context: string): boolean => [...inVectors].some((shown) => fits(context, shown))
  const missing = [...inSource].filter((context) => OWN[context] === undefined && !isShown(context))
  assert.deepEqual(missing, [], 'Add vectors with these contexts to tests/vectors/make.ts, or say in OWN why not.')
  const isUsed = (shown: string): boolean => [...inSource].some((context) => fits(context, shown))
  const stale = [...inVectors].filter((context) => !isUsed(context))
  assert.deepEqual(stale, [], 'Nothing uses these contexts. Delete their vectors.')
  const unused = Object.keys(OWN).filter((context) => !inSource.has(context))
  assert.deepEqual(unused, [], 'OWN names contexts that no source has.')
})

test('SPEC.md names every context', () => {
  const spec = readFileSync(join(ROOT, 'SPEC.md'), 'utf8')
  assert.deepEqual(
    [...inVectors].filter((context) => !spec.includes(`\`${context}\``) && !spec.includes(`"${context}"`)),
    [],
  )
})

test('each function of the protocol package that signs or hashes is compared with a vector', () => {
  const tests = globSync('packages/protocol/test/vectors/*.test.ts', { cwd: ROOT })
  const text = tests.map((path) => readFileSync(join(ROOT, path), 'utf8')).join('\n')
  const signed = globSync('packages/protocol/src/signed/*.ts', { cwd: ROOT }).filter(
    (path) => !path.endsWith('layout.ts'),
  )
  const names = signed.flatMap((path) =>
    [...readFileSync(join(ROOT, path), 'utf8').matchAll(/^export function (\w+(?:Bytes|Body)|chain\w+)\(/gm)].map(
      ([, name = '']) => name,
    ),
  )
  assert.ok(names.length >= 10, names.join())
  assert.deepEqual(
    names.filter((name) => !text.includes(`${name}(`)),
    [],
  )
})

test('every file of vectors is described and read by a test', () => {
  const readme = readFileSync(join(VECTORS, 'README.md'), 'utf8')
  const tests = globSync('packages/*/test/**/*.test.ts', { cwd: ROOT }).map((path) =>
    readFileSync(join(ROOT, path), 'utf8'),
  )
  for (const file of files) {
    assert.ok(readme.includes(`\`${file}\``), `README.md does not describe ${file}`)
    assert.ok(
      tests.some((text) => text.includes(`'${file}'`)),
      `no test reads ${file}`,
    )
  }
})
