/** The `static` command as a real process. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { programFile } from '../bundle.ts'

/** The path of the command. */
export const MAIN: string = programFile('static', resolve(import.meta.dirname, '../../../cli/src/main.js'))
const READY_WITHIN = 120_000

/** How to run it. */
export interface CommandOptions {
  /** Writes the log to this file instead of keeping it in memory. */
  readonly logFile?: string | undefined
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Flags of Node itself. */
  readonly nodeFlags?: readonly string[] | undefined
  /** The command that starts `static`; the one in the checkout by default. */
  readonly program?: readonly string[] | undefined
}

/** How a process ended. */
export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A process that has printed its ready line. */
export interface Ready<Line> extends AsyncDisposable {
  readonly pid: number
  /** Its line of JSON. */
  readonly ready: Line
  /** From the start of the process to its ready line. */
  readonly readyMs: number
  /** Its output on stderr so far. */
  errors(): string
  /** Sends a signal and waits for the exit. */
  end(signal: NodeJS.Signals): Promise<Ending>
}

/** Starts a server command and waits until it is ready. Rejects with its output if it exits before that. */
export async function startCommand<Line>(words: readonly string[], options: CommandOptions = {}): Promise<Ready<Line>> {
  const started = performance.now()
  const { child, errors, ended } = spawnCommand(words, options)
  const first = await Promise.race([firstLine(child), ended])
  if (typeof first !== 'string') {
    throw new Error(`static ${words[0]} exited with ${first.code ?? first.signal} before it was ready:\n${errors()}`)
  }
  const end = async (signal: NodeJS.Signals): Promise<Ending> => {
    child.kill(signal)
    return ended
  }
  return {
    pid: child.pid ?? 0,
    ready: JSON.parse(first) as Line,
    readyMs: performance.now() - started,
    errors,
    end,
    [Symbol.asyncDispose]: async () => void (await end('SIGKILL')),
  }
}

/** Starts a server command that is expected to fail; returns its exit code and output. */
export async function failCommand(
  words: readonly string[],
  options: CommandOptions = {},
): Promise<Ending & { errors: string }> {
  const { child, errors, ended } = spawnCommand(words, options)
  const first = await Promise.race([firstLine(child), ended])
  if (typeof first === 'string') {
    child.kill('SIGKILL')
    throw new Error(`static ${words[0]} started although it should fail: ${first}`)
  }
  return { ...first, errors: errors() }
}

/** Runs a command and returns its stdout. Rejects with its output if it fails. */
export async function runCommand(words: readonly string[]): Promise<string> {
  const { child, errors, ended } = spawnCommand(words, {})
  if (!child.stdout) throw new Error('The command has no stdout.')
  const [printed, { code, signal }] = await Promise.all([text(child.stdout), ended])
  if (code !== 0) throw new Error(`static ${words.join(' ')} exited with ${code ?? signal}:\n${errors()}`)
  return printed
}

function spawnCommand(
  words: readonly string[],
  { logFile, env, nodeFlags = [], program = [process.execPath, ...nodeFlags, MAIN] }: CommandOptions,
): { child: ChildProcess; errors: () => string; ended: Promise<Ending> } {
  const log = logFile === undefined ? 'pipe' : openSync(logFile, 'a')
  const [file = '', ...first] = program
  const child = spawn(file, [...first, ...words], {
    stdio: ['ignore', 'pipe', log],
    env: { ...process.env, ...env },
  })
  if (typeof log === 'number') closeSync(log)
  const chunks: string[] = []
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => chunks.push(chunk))
  // `close` follows the last byte of stderr; `exit` may come earlier.
  const ended = once(child, 'close').then(([code, signal]): Ending => ({ code, signal }))
  return { child, errors: () => chunks.join(''), ended }
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('The server has no stdout.')
  const lines = createInterface({ input: child.stdout })
  const late = setTimeout(() => child.kill('SIGKILL'), READY_WITHIN)
  child.once('exit', () => clearTimeout(late))
  const [line] = (await once(lines, 'line')) as [string]
  clearTimeout(late)
  return line
}

/** The error message of a failed command: with `--json` the error is one JSON document on one line. */
export function sentenceOf(errors: string): string {
  assert.match(errors, /^\{"error":\{[^\n]+\}\}\n$/, `not one error: ${errors}`)
  const { error } = JSON.parse(errors) as { error: { message: string } }
  return error.message
}
