/** What `npm run proof -- ci` runs beyond `npm test`: files of its own, and the whole form of those that have one. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Folders with slow files first: the order of the first run. Later ones know how long each file takes. */
const TESTS = ['tests/**/*.test.ts', 'packages/{cli,api,sdk}/test/**/*.test.ts', 'packages/*/test/**/*.test.ts']
/**
 * Stories of a whole system, told with the programs that users start. The parts they rest on have their own tests
 * in `npm test`, and no planted bug (lab/bugs) names them.
 */
const OF_CI: readonly string[] = [
  'packages/relay/test/scenario/mixed.test.ts',
  'tests/cli/proofs.test.ts',
  'tests/cli/relay-changed.test.ts',
  'tests/cli/slots.test.ts',
  'tests/console/operator-links.test.ts',
  'tests/docs/snippets.test.ts',
  'tests/e2e/backup.test.ts',
  'tests/e2e/certificates.test.ts',
  'tests/e2e/copy.test.ts',
  'tests/e2e/everywhere.test.ts',
  'tests/e2e/readme.test.ts',
  'tests/e2e/relay-processes.test.ts',
  'tests/e2e/two-machines.test.ts',
  'tests/examples/examples.test.ts',
  'tests/interop/browser.test.ts',
  'tests/mcp/handlers.test.ts',
  'tests/pack/pack.test.ts',
  'tests/traffic/traffic.test.ts',
]
/** Files that have a whole form, by themselves or by a helper. */
const HAS_WHOLE_FORM = /@static\/testkit\/whole|\b(?:forLedger|onSomeEngine)\(/

/** Every test file. */
export function allTests(root: string): string[] {
  return [...new Set(TESTS.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()))]
}

/** Those of `npm test`. */
export function usualTests(root: string): string[] {
  return allTests(root).filter((file) => !OF_CI.includes(file))
}

/** Those of `npm run proof -- ci`. */
export function wholeTests(root: string): string[] {
  const hasWholeForm = (file: string): boolean => HAS_WHOLE_FORM.test(readFileSync(join(root, file), 'utf8'))
  return allTests(root).filter((file) => OF_CI.includes(file) || hasWholeForm(file))
}
