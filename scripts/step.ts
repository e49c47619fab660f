/** Running programs as steps of a task: visible, and loud when they fail. */
import { spawn } from 'node:child_process'

/** Says what happens next. */
export function say(text: string): void {
  process.stderr.write(`→ ${text}\n`)
}

/** Runs a program in this terminal; resolves to its exit code. */
export function run(program: string, words: readonly string[], env: Record<string, string> = {}): Promise<number> {
  const child = spawn(program, words, { stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code) => resolve(code ?? 1))
  })
}

/** Ends the task with one sentence. */
export function fail(text: string): never {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
