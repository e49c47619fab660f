/** The test files whose outcome could depend on timing: they start processes or threads, race, or kill. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const TESTS = ['packages/*/test/**/*.test.ts', 'tests/**/*.test.ts']
/** Matched in the file or in a helper that it imports. */
const STARTS_PROCESSES = /node:(child_process|worker_threads|cluster)|process\.kill\(|SIGKILL/
const IMPORT = /(?:from|import|resolve\()\s*'((?:\.{1,2}|@static\/testkit)\/[^']+)'/g
/** Matched in the file name or in the name of a test. */
const RACES = /\b(?:races?|bursts?|crash(?:es|ed)?|kill(?:s|ed)?|at the same time)\b/i
const TITLE = /\b(?:test|it|describe|suite)\(\s*(['"`])(.*?)\1/g

/** The paths of all such files, sorted. */
export function riskyTests(root: string): string[] {
  const starts = new Map<string, boolean>()
  return TESTS.flatMap((pattern) => globSync(pattern, { cwd: root }))
    .sort()
    .filter((file) => isRacy(root, file) || doesStart(root, join(root, file), starts))
}

/** Whether a test file starts processes or threads, by itself or by a helper. */
export function startsProcesses(root: string, file: string): boolean {
  return doesStart(root, join(root, file), new Map())
}

function isRacy(root: string, file: string): boolean {
  const titles = [...readFileSync(join(root, file), 'utf8').matchAll(TITLE)].map(([, , title = '']) => title)
  return [file, ...titles].some((text) => RACES.test(text))
}

/** Follows imports of test helpers only: the code under test may use threads for its own reasons. */
function doesStart(root: string, path: string, known: Map<string, boolean>): boolean {
  const before = known.get(path)
  if (before !== undefined) return before
  // Stops the recursion for helpers that import each other.
  known.set(path, false)
  const text = readFileSync(path, 'utf8')
  const found =
    STARTS_PROCESSES.test(text) ||
    [...text.matchAll(IMPORT)]
      .map(([, specifier = '']) => located(path, specifier))
      .filter((helper) => helper !== undefined && isTestCode(relative(root, helper)))
      .some((helper) => helper !== undefined && doesStart(root, helper, known))
  known.set(path, found)
  return found
}

function located(importer: string, specifier: string): string | undefined {
  try {
    const path = specifier.startsWith('.')
      ? join(dirname(importer), specifier)
      : fileURLToPath(import.meta.resolve(specifier))
    return existsSync(path) && path.endsWith('.ts') ? path : undefined
  } catch {
    return undefined
  }
}

function isTestCode(path: string): boolean {
  return /^(?:packages\/testkit\/|packages\/[^/]+\/test\/|tests\/|lab\/)/.test(path)
}
