/** `npm run check`: every static check. */
import { fail, run, say } from './step.ts'

const CHECKS: readonly (readonly [name: string, file: string, ...words: string[]])[] = [
  ['types', 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.json'],
  ['types of the console', 'node_modules/typescript/bin/tsc', '-p', 'packages/console/tsconfig.json'],
  ['lint and walls', 'node_modules/oxlint/bin/oxlint', '--deny-warnings'],
  ['format', 'node_modules/oxfmt/bin/oxfmt', '--check'],
  ['unused code', 'node_modules/knip/bin/knip.js'],
  // Tests and what is internal are no reason to be in src.
  ['unused code of src', 'node_modules/knip/bin/knip.js', '-c', 'knip.src.ts'],
  ['the schema and what is generated', 'scripts/gen.ts', '--check'],
]

for (const [name, file, ...words] of CHECKS) {
  say(`Checking ${name}`)
  if ((await run(process.execPath, [file, ...words])) !== 0) fail(`The check of ${name} failed.`)
}
