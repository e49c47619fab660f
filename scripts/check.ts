/** `npm run check`: every static check. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fail, say } from './step.ts'

const TSC = 'node_modules/typescript/bin/tsc'
/** Checks only what has changed since the last run, and what depends on it. */
const REMEMBER = ['--incremental', '--tsBuildInfoFile']
const CHECKS: readonly (readonly [name: string, file: string, ...words: string[]])[] = [
  ['types', TSC, '-p', 'tsconfig.json', ...REMEMBER, '.cache/types.tsbuildinfo'],
  ['types of the console', TSC, '-p', 'packages/console/tsconfig.json', ...REMEMBER, '.cache/console.tsbuildinfo'],
  ['lint and walls', 'node_modules/oxlint/bin/oxlint', '--deny-warnings'],
  ['format', 'node_modules/oxfmt/bin/oxfmt', '--check'],
  ['unused code', 'node_modules/knip/bin/knip.js'],
  // Code that only tests or internal entry points use does not belong in src.
  ['unused code of src', 'node_modules/knip/bin/knip.js', '-c', 'knip.src.ts'],
  ['schema and generated files', 'scripts/gen.ts', '--check'],
]

/** The output of a check, and whether it passed. */
interface Result {
  readonly name: string
  readonly output: string
  readonly passed: boolean
}

/** Runs a check to its end. */
async function check([name, file, ...words]: (typeof CHECKS)[number]): Promise<Result> {
  const child = spawn(process.execPath, [file, ...words], { stdio: ['ignore', 'pipe', 'pipe'] })
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk))
  const [code] = (await once(child, 'close')) as [number | null]
  return { name, output: Buffer.concat(output).toString(), passed: code === 0 }
}

// Run all at once, because each leaves cores idle while it reads files; print their output in order.
const running = CHECKS.map((one) => check(one))
for (const next of running) {
  const { name, output, passed } = await next
  say(`Checking ${name}`)
  process.stderr.write(output)
  if (!passed) fail(`Check failed: ${name}.`)
}
