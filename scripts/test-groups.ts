/**
 * Groups of test files that run in one process each. Node starts, loads the packages and compiles hot code for every
 * process, which takes longer than most tests: in groups they need half of the CPU time.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { startsProcesses } from './risky-tests.ts'

/** Folders of tests that share a process with the files beside them, and leave it as it was. */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  a2a: ['packages/a2a/test/'],
  api: ['packages/api/test/'],
  cli: ['packages/cli/test/'],
  protocol: ['packages/protocol/test/', 'packages/node/test/', 'packages/quic/test/'],
  'relay-core': ['packages/relay/test/core/'],
  'relay-scenario': ['packages/relay/test/scenario/'],
  'relay-store': ['packages/relay/test/store/'],
  'relay-transport': ['packages/relay/test/transport/', 'packages/relay/test/bus/'],
  'sdk-asking': ['packages/sdk/test/asking/', 'packages/sdk/test/account/', 'packages/sdk/test/public/'],
  'sdk-channel': ['packages/sdk/test/channel/', 'packages/sdk/test/agent/'],
  'sdk-joining': ['packages/sdk/test/joining/', 'packages/sdk/test/admitting/', 'packages/sdk/test/driver/'],
  'sdk-lies': ['packages/sdk/test/lies/'],
  'sdk-mls': ['packages/sdk/test/mls/'],
  'sdk-scenario': ['packages/sdk/test/scenario/'],
  'sdk-session': ['packages/sdk/test/session/'],
  'sdk-simulation': ['packages/sdk/test/simulation/', 'packages/sdk/test/member/'],
  'sdk-store': ['packages/sdk/test/store/', 'packages/sdk/test/transport/', 'packages/sdk/test/platform/'],
  'sdk-vectors': ['packages/sdk/test/vectors/', 'packages/sdk/test/proofs/'],
}
/** So that no group takes much longer than the others. */
const MOST_FILES = 30
/** What measures, what has a database of its own, and hooks outside of suites, which would run for the tests of the others. */
const NEEDS_OWN_PROCESS = /@static\/testkit\/(?:fuzz|power)|\b(?:empty|make)Scratch\b|^(?:before|after)Each\(/m

/** Replaces files that can share a process by files that import them. */
export function groupFiles(root: string, files: readonly string[]): string[] {
  const home = join(root, '.cache/groups')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  const left = new Set(files)
  const groups = Object.entries(FOLDERS).flatMap(([name, folders]) => {
    const members = files.filter(
      (file) =>
        folders.some((folder) => file.startsWith(folder)) &&
        !startsProcesses(root, file) &&
        !NEEDS_OWN_PROCESS.test(readFileSync(join(root, file), 'utf8')),
    )
    for (const file of members) left.delete(file)
    return chunksOf(members).map((chunk, at) => {
      const path = join(home, `${name}-${at}.ts`)
      writeFileSync(path, chunk.map((file) => `import '${relative(home, join(root, file))}'\n`).join(''))
      return relative(root, path)
    })
  })
  return [...groups, ...left]
}

/** As few as possible, of about the same size. */
function chunksOf(files: readonly string[]): string[][] {
  const count = Math.ceil(files.length / MOST_FILES)
  const size = Math.ceil(files.length / count)
  return Array.from({ length: count }, (_, at) => files.slice(at * size, (at + 1) * size))
}
