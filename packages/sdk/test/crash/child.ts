/** Runs an agent in a process of its own until it is done or dead. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { programFile } from '@static/testkit/bundle'
import type { ChildOptions } from './tasks.ts'

const PROGRAM = programFile('agent-child', join(import.meta.dirname, 'agent-child.ts'))

/** What the agent said before its end. */
export interface Report {
  readonly done: boolean
  /** The calls to its ports, when it has come to its end. */
  readonly calls: readonly string[] | undefined
  readonly welcome: string | undefined
  readonly confirmed: readonly string[]
  readonly received: readonly Received[]
}

/** A payload that was given to the application. */
export interface Received {
  readonly text: string
  readonly messageId: string
  readonly redelivered: boolean
}

/** Runs it; `meanwhile` happens once it is connected, and before it begins. */
export async function runChild(options: ChildOptions, meanwhile: () => Promise<void>): Promise<Report> {
  const child = fork(PROGRAM, [JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    // What a process leaves behind that is killed.
    env: {
      ...process.env,
      TMPDIR: options.directory,
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? options.compiled,
    },
  })
  assert.ok(child.stdout && child.stderr)
  const said: unknown[][] = []
  const complaints: string[] = []
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => complaints.push(chunk))
  const ready = Promise.withResolvers<void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const words = JSON.parse(line) as unknown[]
    said.push(words)
    if (words[0] === 'ready') ready.resolve()
  })
  const ended = Promise.all([once(child, 'exit'), once(child.stdout, 'close'), once(child.stderr, 'close')])
  await Promise.race([ready.promise, ended])
  await meanwhile()
  // It may be dead by now.
  if (child.connected) child.send('go', () => {})
  const [[code, signal]] = await ended
  const calls = said.find(([word]) => word === 'calls')?.[1] as string[] | undefined
  assert.ok(signal === 'SIGKILL' || (code === 0 && calls), `The agent ended with ${code}: ${complaints.join('')}`)
  const [welcome] = valuesOf(said, 'welcome')
  return {
    done: said.some(([word]) => word === 'done'),
    calls,
    welcome: welcome?.[0] as string | undefined,
    confirmed: valuesOf(said, 'confirmed').map(([text]) => String(text)),
    received: valuesOf(said, 'received').map(([text, messageId, redelivered]) => ({
      text: String(text),
      messageId: String(messageId),
      redelivered: redelivered === true,
    })),
  }
}

function valuesOf(said: readonly unknown[][], wanted: string): unknown[][] {
  return said.filter(([word]) => word === wanted).map(([, ...values]) => values)
}
