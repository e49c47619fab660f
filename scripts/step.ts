/** Helpers for scripts that run programs step by step. */
import { spawn } from 'node:child_process'

/** Announces the next step. */
export function say(text: string): void {
  process.stderr.write(`→ ${text}\n`)
}

/** Runs a program with the output of this process; resolves to its exit code. */
export function run(program: string, words: readonly string[], env: Record<string, string> = {}): Promise<number> {
  const child = spawn(program, words, { stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code) => resolve(code ?? 1))
  })
}

/** Exits with an error message. */
export function fail(text: string): never {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
