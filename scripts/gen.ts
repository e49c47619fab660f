/**
 * `npm run gen`: checks the relay's schema and generates its TypeScript code and pages of docs/, without network access.
 * `--check` writes nothing, and fails if the committed files are out of date. `--accept` makes the current schema the
 * baseline for later changes.
 *
 * `buf breaking` compares with proto/baseline.txtpb, a committed description of the schema that deployed peers use. A
 * git reference would need the history, which an archive or a shallow clone does not have. A breaking change thus shows
 * up as a change of that file; after 1.0.0, only releases change it.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { pythonOptions, typescriptOptions } from './client-options.ts'
import { errorsMarkdown } from './errors-page.ts'
import { typescriptReference } from './reference-page.ts'

const root = resolve(import.meta.dirname, '..')
const home = join(root, 'packages/protocol')
const baseline = 'proto/baseline.txtpb'
/** Generated files, by path: the reference last, because it is made from the others. */
const PAGES: Readonly<Record<string, () => string>> = {
  'packages/sdk/src/gen/client-options.ts': typescriptOptions,
  'python/static_sdk/_configured.py': pythonOptions,
  'docs/errors.md': errorsMarkdown,
  'docs/reference/typescript.md': typescriptReference,
  'scripts/start-help.txt': startHelp,
}

const { values: flags } = parseArgs({ options: { check: { type: 'boolean' }, accept: { type: 'boolean' } } })

buf('lint')
if (flags.accept === true) buf('build', '--exclude-source-info', '-o', baseline)
buf('breaking', '--against', baseline)
if (flags.check === true) check()
else {
  buf('generate', '--clean')
  for (const [page, text] of Object.entries(PAGES)) writeFileSync(join(root, page), text())
}

/** Generates into a temporary folder and compares the result with the committed files. */
function check(): void {
  const cache = join(root, '.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'gen-'))
  try {
    buf('generate', '--output', folder)
    const wanted = files(join(folder, 'src/gen'))
    const found = files(join(home, 'src/gen'))
    const names = new Set([...wanted.keys(), ...found.keys()])
    const stale = [...names].filter((name) => wanted.get(name) !== found.get(name))
    for (const [page, text] of Object.entries(PAGES)) {
      const path = join(root, page)
      if (!existsSync(path) || readFileSync(path, 'utf8') !== text()) stale.push(page)
    }
    if (stale.length > 0) fail(`Out of date: ${stale.join(', ')}. Run \`npm run gen\`.`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** What `npm start -- --help` prints, in a fresh checkout, too. */
function startHelp(): string {
  const env = { HOME: '~', NO_COLOR: '1' }
  const words = [join(root, 'packages/cli/src/main.js'), 'up', '--help']
  const { status, stdout } = spawnSync(process.execPath, words, { env, encoding: 'utf8' })
  if (status !== 0) fail('`static up --help` failed.')
  return stdout.replace('static up [options]', 'npm start -- [options]').replaceAll('$ static up', '$ npm start --')
}

function files(folder: string): Map<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const paths = names.map((entry) => join(entry.parentPath, entry.name))
  return new Map(paths.map((path) => [path.slice(folder.length + 1), readFileSync(path, 'utf8')]))
}

function buf(...words: string[]): void {
  const bin = join(root, 'node_modules/.bin')
  // buf runs protoc-gen-es from PATH, which runs `node`: both must be found, and Node must be this one.
  const path = [bin, resolve(process.execPath, '..'), process.env.PATH].join(delimiter)
  const env = { ...process.env, PATH: path, BUF_CACHE_DIR: join(root, '.cache/buf') }
  const done = spawnSync(join(bin, 'buf'), words, { cwd: home, env, stdio: 'inherit' })
  if (done.error !== undefined) fail(`Cannot start buf: ${done.error.message}`)
  if (done.status !== 0) fail(`buf ${words[0]} failed; see its output above.`)
}

function fail(text: string): never {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
