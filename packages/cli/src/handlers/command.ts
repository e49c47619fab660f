/**
 * Runs a command for each message (`listen --exec`): the payload on stdin, the rest in the environment. Exit code 0
 * means that the message is handled.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { StaticError } from '@static/protocol'
import type { Message } from '../agent/actions.ts'
import { printable } from '../terminal/output.ts'

/** The agent, so that the command can use it too, for example to answer. */
export interface HandlingAgent {
  readonly identity: string
  readonly dataDir: string
}

/** Handles a message; rejects with the reason if it failed. */
export type MessageHandler = (message: Message) => Promise<void>

/**
 * Checks a command. The shell succeeds at doing nothing: every message would count as handled.
 *
 * @throws {StaticError} `invalid_request`
 */
export function parseCommand(line: string): string {
  if (line.trim() !== '') return line
  throw StaticError.of('invalid_request', '--exec is empty. Pass a shell command that handles a message.')
}

/** A handler that runs a shell command. When `signal` is aborted, the command gets SIGTERM. */
export function commandHandler(line: string, agent: HandlingAgent, signal: AbortSignal): MessageHandler {
  return async (message) => {
    // In a process group of its own, which is ended with all that the shell has started.
    const child = spawn('/bin/sh', ['-c', line], {
      env: { ...process.env, ...variablesOf(message, agent) },
      stdio: ['pipe', 'inherit', 'inherit'],
      detached: true,
    })
    const ended = once(child, 'exit')
    const stop = (): void => endGroup(child.pid)
    signal.addEventListener('abort', stop)
    try {
      // The command need not read its input.
      child.stdin.on('error', () => {})
      child.stdin.end(Buffer.from(message.payload, 'base64'))
      const [code, killedBy] = (await ended) as [number | null, NodeJS.Signals | null]
      if (code === null) throw new Error(`The command was ended by ${killedBy}.`)
      if (code !== 0) throw new Error(`The command exited with ${code}.`)
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM')
  } catch {
    // It has just ended.
  }
}

/** The variables of a message. The sender chose its identity: control characters in it are escaped. */
function variablesOf(message: Message, { identity, dataDir }: HandlingAgent): Readonly<Record<string, string>> {
  const { channel, index, message_id: id, epoch, time, redelivered, sender } = message
  return {
    STATIC_IDENTITY: identity,
    STATIC_DATA_DIR: dataDir,
    STATIC_CHANNEL: channel,
    STATIC_MESSAGE_INDEX: String(index),
    STATIC_MESSAGE_ID: id,
    STATIC_MESSAGE_EPOCH: String(epoch),
    STATIC_MESSAGE_TIME: time,
    STATIC_REDELIVERED: String(redelivered),
    STATIC_SENDER_AGENT_ID: sender.agent_id,
    STATIC_SENDER_FINGERPRINT: sender.fingerprint,
    STATIC_SENDER_IDENTITY: printable(sender.identity),
  }
}
