/** Helpers for scripts that run programs step by step. */
import { spawn } from 'node:child_process'

/** Announces the next step. */
export function say(text: string): void {
  process.stderr.write(`→ ${text}\n`)
}

/** Runs a program with the output of this process; resolves to its exit code. `read` gets a copy of what it prints. */
export function run(
  program: string,
  words: readonly string[],
  env: Record<string, string> = {},
  read?: (text: string) => void,
): Promise<number> {
  const stdio = ['ignore', read ? 'pipe' : 'inherit', 'inherit'] as const
  const child = spawn(program, words, { stdio: [...stdio], env: { ...process.env, ...env } })
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    process.stdout.write(text)
    read?.(text)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve(code ?? 1))
  })
}

/** Exits with an error message. */
export function fail(text: string): never {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
