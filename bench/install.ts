/**
 * `npm run bench -- install`: what it takes to install the SDK, beside packages that developers know: seconds with a warm
 * cache of npm, megabytes on disk and packages. Each into an empty directory, in turns. Needs npm's registry.
 */
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { median } from './api/processor.ts'

const TURNS = 3
const OTHERS = ['@slack/bolt@5.1.0', 'nats@2.29.3', '@xmtp/node-sdk@6.0.0']
const root = resolve(import.meta.dirname, '..')
const home = mkdtempSync(join(tmpdir(), 'static-install-'))

interface Installed {
  readonly seconds: number
  readonly megabytes: number
  readonly packages: number
}

try {
  run(root, process.execPath, join(root, 'scripts/pack.ts'), join(home, 'packed'))
  const tarballs = (...names: readonly string[]): string[] =>
    names.map((name) => join(home, 'packed', `static-${name}-${version()}.tgz`))
  const candidates: Readonly<Record<string, readonly string[]>> = {
    '@static/sdk': tarballs('node', 'protocol', 'sdk'),
    '@static/sdk with @static/quic': tarballs('node', 'protocol', 'quic', 'sdk'),
    ...Object.fromEntries(OTHERS.map((name) => [name, [name]])),
  }
  const taken = new Map<string, Installed[]>()
  for (let turn = 0; turn <= TURNS; turn++) {
    for (const [name, words] of Object.entries(candidates)) {
      const installed = install(words)
      // The first turn fills the cache.
      if (turn > 0) taken.set(name, [...(taken.get(name) ?? []), installed])
    }
  }
  const results: Record<string, Installed> = {}
  for (const [name, turns] of taken) {
    const { megabytes, packages } = turns[0]!
    const seconds = Number(median(turns.map((turn) => turn.seconds)).toFixed(1))
    results[name] = { seconds, megabytes, packages }
    console.log(`${name.padEnd(30)} ${seconds.toFixed(1)} s  ${megabytes} MB  ${packages} packages`)
  }
  writeFileSync(join(import.meta.dirname, 'results/install.json'), `${JSON.stringify(results, null, 2)}\n`)
} finally {
  rmSync(home, { recursive: true, force: true })
}

/** Installs into an empty directory. */
function install(words: readonly string[]): Installed {
  const place = join(home, 'project')
  mkdirSync(place)
  writeFileSync(join(place, 'package.json'), '{"private":true}')
  const begin = performance.now()
  const flags = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', '--cache', join(home, 'cache')]
  run(place, 'npm', 'install', ...words, ...flags)
  const seconds = (performance.now() - begin) / 1000
  const modules = join(place, 'node_modules')
  const megabytes = Math.round(Number(run(place, 'du', '-s', '--block-size=1', modules).split('\t')[0]) / 1e6)
  const manifests = globSync('**/node_modules/{*,@*/*}/package.json', { cwd: place })
  rmSync(place, { recursive: true })
  return { seconds, megabytes, packages: manifests.length }
}

function version(): string {
  return (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version
}

function run(cwd: string, program: string, ...words: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, words, { cwd, encoding: 'utf8', stdio: 'pipe' })
  if (status !== 0) throw new Error(`${program} ${words.join(' ')} failed:\n${stderr}`)
  return stdout
}
