/** Checks that only their owner can access files with secrets. */
import { lstatSync, type Stats } from 'node:fs'
import { join } from 'node:path'
import { namesIn } from '@static/sdk/account'
import { type Finding, fix, ok } from './finding.ts'

/** Certificates, which anyone may read. */
const PUBLIC = /\.pem$/
const OTHERS = 0o077
const OTHERS_WRITE = 0o022

/** Checks the data of `static up`. */
export function checkServerData(directory: string): Finding {
  if (!statOf(directory)) return ok('server data', `none in ${directory}`)
  return findingOf('server data', directory, directoryFaults(directory))
}

/** Checks the directory of every agent. */
export function checkAgents(directory: string): Finding {
  if (!statOf(directory)) return ok('agents', `none in ${directory}`)
  const agents = namesIn(directory).map((name) => join(directory, name))
  const count = agents.length === 1 ? '1 agent' : `${agents.length} agents`
  return findingOf('agents', `${count} in ${directory}`, agents.flatMap(directoryFaults))
}

function findingOf(check: string, what: string, faults: readonly string[]): Finding {
  const [first] = faults
  if (first === undefined) return ok(check, `${what}: accessible by you only`)
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : ''
  return fix(check, `${first}${more}`)
}

/** Each problem in a directory, with its fix. */
function directoryFaults(directory: string): string[] {
  const files = namesIn(directory).map((name) => join(directory, name))
  return [
    ...faultOf(directory, OTHERS, '700'),
    ...files.flatMap((file) => (PUBLIC.test(file) ? faultOf(file, OTHERS_WRITE, '644') : faultOf(file, OTHERS, '600'))),
  ]
}

function faultOf(path: string, refused: number, mode: string): string[] {
  const found = statOf(path)
  if (!found) return []
  if (found.uid !== process.geteuid?.()) return [`${path} belongs to another user. Run as that user, or move it away.`]
  return (found.mode & refused) === 0 ? [] : [`Other users can access ${path}. Run \`chmod ${mode} ${path}\`.`]
}

function statOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    // The parent directory is not accessible, which is reported separately.
    return undefined
  }
}
