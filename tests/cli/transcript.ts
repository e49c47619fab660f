/**
 * Transcripts: commands and their expected output.
 *
 *     # a comment
 *     $ a shell command
 *     a line of stdout
 *     ! a line of stderr
 *     = exit code (default: 0)
 *
 * `[..]` stands for anything within a line.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { Person } from './support.ts'

/** A command and its expected result. */
export interface Step {
  readonly command: string
  readonly stdout: readonly string[]
  readonly stderr: readonly string[]
  readonly code: number
}

/** Parses a transcript file. */
export function readTranscript(path: string): Step[] {
  const steps: { command: string; stdout: string[]; stderr: string[]; code: number }[] = []
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const step = steps.at(-1)
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2), stdout: [], stderr: [], code: 0 })
    else if (line.startsWith('! ')) step?.stderr.push(line.slice(2))
    else if (line.startsWith('= ')) Object.assign(step ?? {}, { code: Number(line.slice(2)) })
    else step?.stdout.push(line)
  }
  return steps
}

/** Runs a step and compares the result. */
export async function play(person: Person, { command, stdout, stderr, code }: Step): Promise<void> {
  const ended = await person.shell(command)
  const shown = `$ ${command}\n${ended.stdout}${ended.stderr}= ${ended.code}`
  assert.match(ended.stdout, pattern(stdout), shown)
  assert.match(ended.stderr, pattern(stderr), shown)
  assert.equal(ended.code, code, shown)
}

function pattern(lines: readonly string[]): RegExp {
  const escaped = lines.map((line) =>
    line
      .split('[..]')
      .map((part) => RegExp.escape(part))
      .join('.*'),
  )
  return new RegExp(`^${escaped.map((line) => `${line}\n`).join('')}$`)
}
