/** The `static` command as a real process. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Workspace } from './workspace.ts'

const MAIN = resolve(import.meta.dirname, '../../packages/cli/src/main.ts')
const READY_WITHIN = 30_000

/** How to start a server. */
export interface ServerOptions {
  readonly workspace: Workspace
  readonly dataDir: string
  readonly command?: 'api' | 'up'
  /** `postgres://…`; a SQLite file in the data directory by default. */
  readonly database?: string | undefined
  readonly settings?: unknown
  /** Also opens the listener for relay nodes. */
  readonly internal?: boolean
  readonly logLevel?: 'debug' | 'info' | 'silent'
  /** Where the log goes, instead of being kept in memory. */
  readonly logFile?: string
  readonly port?: number
  /** Flags of Node itself. */
  readonly nodeFlags?: readonly string[]
}

/** How a process ended. */
export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A running server. */
export interface Server extends AsyncDisposable {
  readonly pid: number
  readonly url: string
  readonly internalUrl: string | undefined
  /** From the start of the process to its ready line. */
  readonly readyMs: number
  /** What it wrote to stderr so far. */
  errors(): string
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<Ending>
}

/** Starts `static api` (or `up`) and waits until it is ready. Rejects with its words if it ends before. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const started = performance.now()
  const { child, errors, ended } = spawnServer(options)
  const first = await Promise.race([firstLine(child), ended])
  if (typeof first !== 'string') {
    throw new Error(`The server ended with ${first.code ?? first.signal} before it was ready:\n${errors()}`)
  }
  const readyMs = performance.now() - started
  const ready = JSON.parse(first) as { api_url: string; internal_url?: string }
  const end = async (signal: NodeJS.Signals): Promise<Ending> => {
    child.kill(signal)
    return ended
  }
  return {
    pid: child.pid ?? 0,
    url: ready.api_url,
    internalUrl: ready.internal_url,
    readyMs,
    errors,
    end,
    [Symbol.asyncDispose]: async () => void (await end('SIGKILL')),
  }
}

/** Starts a server that is expected to end by itself; gives how it ended and what it said. */
export async function failToStart(options: ServerOptions): Promise<Ending & { errors: string }> {
  const { child, errors, ended } = spawnServer(options)
  const first = await Promise.race([firstLine(child), ended])
  if (typeof first === 'string') {
    child.kill('SIGKILL')
    throw new Error(`The server started after all: ${first}`)
  }
  return { ...first, errors: errors() }
}

function spawnServer(options: ServerOptions): {
  child: ChildProcess
  errors: () => string
  ended: Promise<Ending>
} {
  const { workspace, dataDir, command = 'api', settings, logLevel = 'info', logFile } = options
  const words = [MAIN, command, '--json', '--host', '127.0.0.1', '--api-port', String(options.port ?? 0)]
  words.push('--data-dir', dataDir, '--log-level', logLevel)
  if (command === 'api') words.push('--cert', workspace.certFile, '--key', workspace.keyFile)
  if (options.internal) words.push('--internal-port', '0')
  if (settings !== undefined) words.push('--settings', writeSettings(dataDir, settings, workspace))
  const log = logFile === undefined ? 'pipe' : openSync(logFile, 'a')
  const child = spawn(process.execPath, [...(options.nodeFlags ?? []), ...words], {
    stdio: ['ignore', 'pipe', log],
    env: { ...process.env, STATIC_DATABASE: options.database },
  })
  if (typeof log === 'number') closeSync(log)
  const chunks: string[] = []
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => chunks.push(chunk))
  // `close` comes after the last byte of stderr, `exit` may come before.
  const ended = once(child, 'close').then(([code, signal]): Ending => ({ code, signal }))
  return { child, errors: () => chunks.join(''), ended }
}

let files = 0
function writeSettings(dataDir: string, settings: unknown, workspace: Workspace): string {
  return workspace.file(`settings-${join(dataDir).split('/').at(-1)}-${files++}.json`, JSON.stringify(settings))
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
