/** The `static` command as people and scripts use it: in a shell, in a pipe, in a terminal. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Server } from '@static/testkit/server'
import { MAIN } from '@static/testkit/server/process'
import type { Workspace } from '@static/testkit/server/workspace'

const TERMINAL = resolve(import.meta.dirname, 'terminal.py')
const LATEST = 120_000

/** The exit code and output of a command. */
export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A person with a home directory and `static` on the path. */
export class Person {
  readonly home: string
  readonly env: Readonly<Record<string, string | undefined>>

  constructor(workspace: Workspace, name: string, env: Readonly<Record<string, string | undefined>> = {}) {
    this.home = workspace.directory(name)
    const path = `${dirname(commandIn(workspace))}:${process.env['PATH'] ?? ''}`
    const compiled = { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }
    this.env = { PATH: path, HOME: this.home, TMPDIR: workspace.path, LANG: 'C.UTF-8', ...compiled, ...env }
  }

  /** Runs a shell command in the home directory. */
  async shell(line: string): Promise<Ended> {
    const child = this.start(line)
    const ended = once(child, 'close')
    const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!)])
    const [code] = (await ended) as [number | null]
    return { code, stdout, stderr }
  }

  /** Starts a shell command with a timeout; use `exec` in it to make the command itself the process. */
  start(line: string, timeout: number = LATEST): ChildProcess {
    return spawn('bash', ['-c', line], {
      cwd: this.home,
      env: this.env,
      timeout,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }

  /** Runs a command in a terminal; `steps` are pairs of text to wait for and text to type. */
  async terminal(line: string, steps: readonly (readonly [wait: string, type: string])[] = []): Promise<Ended> {
    const words = [TERMINAL, JSON.stringify(steps), 'bash', '-c', line]
    const child = spawn(process.env['STATIC_TEST_PYTHON'] ?? '/usr/bin/python3', words, {
      cwd: this.home,
      env: { ...this.env, TERM: 'xterm-256color' },
      timeout: LATEST,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = once(child, 'close')
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
    const [code] = (await ended) as [number | null]
    return { code, stdout, stderr }
  }
}

/** The path of a program that runs the `static` command. */
export function commandIn(workspace: Workspace): string {
  const path = join(workspace.path, 'bin/static')
  mkdirSync(dirname(path), { recursive: true })
  // As in scripts/test.ts: less garbage collection.
  const flags = '--min-semi-space-size=16 --max-semi-space-size=32'
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' ${flags} '${MAIN}' "$@"\n`)
  chmodSync(path, 0o755)
  return path
}

/** Environment variables with the addresses of a server on free ports. */
export function whereabouts(workspace: Workspace, server: Server): Readonly<Record<string, string>> {
  const relay = `quic://localhost:${server.relay.quicPort}`
  return { API: server.url, RELAY: relay, CA: join(workspace.path, 'server/ca.pem') }
}

/** Resolves when the stream has printed a text. */
export async function shows(stream: NodeJS.ReadableStream, wanted: string): Promise<void> {
  let seen = ''
  await new Promise<void>((done, fail) => {
    stream.on('data', (chunk: Buffer) => {
      seen += chunk.toString()
      if (seen.includes(wanted)) done()
    })
    stream.on('end', () => fail(new Error(`The stream ended without ${JSON.stringify(wanted)}: ${seen}`)))
  })
}
