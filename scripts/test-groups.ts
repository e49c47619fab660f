/**
 * Groups of test files that run in one process each. Node starts, loads the packages and compiles hot code for every
 * process, which takes longer than most tests of pure code: in groups they need half of the CPU time.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { riskyTests } from './risky-tests.ts'

/** Folders of tests that share a process with the files beside them, and leave it as it was. */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  api: ['packages/api/test/'],
  cli: ['packages/cli/test/'],
  protocol: ['packages/protocol/test/', 'packages/node/test/'],
  'relay-core': ['packages/relay/test/core/'],
  'sdk-channel': ['packages/sdk/test/channel/', 'packages/sdk/test/agent/'],
  'sdk-joining': ['packages/sdk/test/joining/', 'packages/sdk/test/admitting/', 'packages/sdk/test/driver/'],
  'sdk-lies': ['packages/sdk/test/lies/'],
  'sdk-mls': ['packages/sdk/test/mls/'],
  'sdk-session': ['packages/sdk/test/session/'],
  'sdk-store': ['packages/sdk/test/store/', 'packages/sdk/test/transport/'],
  'sdk-vectors': ['packages/sdk/test/vectors/'],
}
/** Real servers, and hooks outside of suites, which would run for the tests of the other files. */
const NEEDS_OWN_PROCESS = /\b(?:TestSystem|startTestRelay)\b|^(?:before|after)Each\(/m

/** Replaces files that can share a process by files that import them. */
export function groupFiles(root: string, files: readonly string[]): string[] {
  const home = join(root, '.cache/groups')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  const alone = new Set(riskyTests(root))
  const left = new Set(files)
  const groups = Object.entries(FOLDERS).flatMap(([name, folders]) => {
    const members = files.filter(
      (file) =>
        folders.some((folder) => file.startsWith(folder)) &&
        !alone.has(file) &&
        !NEEDS_OWN_PROCESS.test(readFileSync(join(root, file), 'utf8')),
    )
    for (const file of members) left.delete(file)
    if (members.length === 0) return []
    const path = join(home, `${name}.ts`)
    writeFileSync(path, members.map((file) => `import '${relative(home, join(root, file))}'\n`).join(''))
    return [relative(root, path)]
  })
  return [...groups, ...left]
}
