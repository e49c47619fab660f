/**
 * `npm run proof -- supply`: the product's dependencies. Checks the lock file, asks the registry for known
 * vulnerabilities, and writes a bill of materials (CycloneDX) to .cache/sbom.json.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { bom } from '../../scripts/release/bom.ts'
import { fail, say } from '../../scripts/step.ts'
import { lockedPackages, runtimePaths } from './lock-file.ts'

const root = resolve(import.meta.dirname, '../..')
const packages = lockedPackages(root)
const faults = packages.flatMap((each) => each.faults)
if (faults.length > 0) fail(faults.join('\n'))

const licenses = Object.entries(Object.groupBy(packages, ({ license }) => license))
for (const [license, group = []] of licenses.sort((a, b) => (b[1]?.length ?? 0) - (a[1]?.length ?? 0)))
  process.stdout.write(`${String(group.length).padStart(5)}  ${license}\n`)

say('Writing .cache/sbom.json')
mkdirSync(join(root, '.cache'), { recursive: true })
writeFileSync(join(root, '.cache/sbom.json'), bom(root))

say('Asking the registry for known vulnerabilities')
const audit = npm('audit', '--omit', 'dev', '--json', '--audit')
const answer = JSON.parse(audit.stdout || '{}') as { metadata?: { vulnerabilities?: Readonly<Record<string, number>> } }
const known = answer.metadata?.vulnerabilities?.['total']
if (known !== undefined && known > 0) fail(audit.stdout)

/** Packages that a server loads only with `--database postgres://…`, `--nats` or `--file-store s3://…`. */
const OPTIONAL = new Set(['pg', '@nats-io/transport-node', 'aws4fetch'])
const count = (workspaces: readonly string[], without?: ReadonlySet<string>): number => {
  const places = runtimePaths(root, workspaces, without)
  return packages.filter(({ path, isNative }) => places.has(path) && !isNative).length
}
const counts = (name: string, ...workspaces: string[]): string => {
  const all = count(workspaces)
  const least = count(workspaces, OPTIONAL)
  return least === all ? `${name} ${all}` : `${name} ${least} (${all} with PostgreSQL, NATS and S3)`
}
const runtime = [
  counts('relay', 'packages/relay'),
  counts('relay and API', 'packages/relay', 'packages/api'),
  counts('SDK', 'packages/sdk'),
  counts('command line with everything', 'packages/cli'),
]
const audited = known === undefined ? 'the registry did not answer the audit' : 'no known vulnerability'
process.stdout.write(`promise T15: runtime packages: ${runtime.join(', ')}; ${audited}; no install scripts run\n`)

function npm(...words: string[]): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  return spawnSync('npm', words, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
}
