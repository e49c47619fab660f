/** Runs programs of the proof. */
import { spawnSync } from 'node:child_process'

/** Lines of a failed program's output that an error shows. */
const SHOWN_LINES = 60

/** Runs a program and returns what it prints to stdout. Throws with the end of its output if it fails. */
export function output(program: string, words: readonly string[], env: NodeJS.ProcessEnv = process.env): string {
  const done = spawnSync(program, words, { encoding: 'utf8', env, maxBuffer: 256e6, stdio: ['ignore', 'pipe', 'pipe'] })
  if (done.error) throw done.error
  if (done.status !== 0) {
    const end = `${done.stdout}${done.stderr}`.trimEnd().split('\n').slice(-SHOWN_LINES).join('\n')
    throw new Error(`${program} ${words.join(' ')} ended with ${done.status ?? done.signal}:\n${end}`)
  }
  return done.stdout.trimEnd()
}

/** The lines that a program prints. */
export function lines(program: string, words: readonly string[]): string[] {
  return output(program, words)
    .split('\n')
    .filter((line) => line !== '')
}
