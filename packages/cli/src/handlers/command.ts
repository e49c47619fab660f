/**
 * Runs a command for each message (`listen --exec`): the payload on stdin, everything else in the environment. Exit
 * code 0 means that the message is handled.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { shownIdentity, StaticError } from '@static/protocol'
import type { Message } from '../agent/actions.ts'
import { mediaType } from '../agent/file-names.ts'

/** The agent, so that the command can use it as well, for example to answer. */
export interface HandlingAgent {
  readonly identity: string
  readonly dataDir: string
}

/** A message whose file, if it has one, was saved at a path or not. */
export interface SavedMessage extends Message {
  readonly file?: NonNullable<Message['file']> & {
    readonly path?: string
    /** Why it was not saved. */
    readonly error?: { readonly code: string; readonly message: string }
  }
}

/** Handles a message; rejects with the reason if it failed. */
export type MessageHandler = (message: SavedMessage) => Promise<void>

/**
 * Checks a command. The shell succeeds when there is nothing to run, so every message would count as handled.
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
    const env = { ...process.env, ...variablesOf(message, agent) }
    const child = spawn('/bin/sh', ['-c', line], { env, stdio: ['pipe', 'inherit', 'inherit'], detached: true })
    await ended(child, Buffer.from(message.payload, 'base64'), signal)
  }
}

/**
 * Runs a shell command for a request and returns its output. The command gets SIGTERM when `signal` is aborted, or when
 * it prints more than `most` bytes, which is `too_large`.
 */
export async function answerOfCommand(
  line: string,
  request: Message,
  agent: HandlingAgent,
  { signal, most }: { readonly signal: AbortSignal; readonly most: number },
): Promise<Buffer> {
  const env = { ...process.env, ...variablesOf(request, agent) }
  const child = spawn('/bin/sh', ['-c', line], { env, stdio: ['pipe', 'pipe', 'inherit'], detached: true })
  const printed: Buffer[] = []
  let bytes = 0
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= most) printed.push(chunk)
    else endGroup(child.pid)
  })
  const closed = once(child, 'close')
  try {
    await ended(child, Buffer.from(request.payload, 'base64'), signal)
  } catch (error) {
    if (bytes > most) throw StaticError.of('too_large', `The answer has more than ${most} bytes, the limit.`)
    throw error
  }
  await closed
  return Buffer.concat(printed)
}

/** The command has its own process group, which is ended together with everything that the shell has started. */
async function ended(
  child: ChildProcess & { readonly stdin: Writable },
  input: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const exit = once(child, 'exit')
  const stop = (): void => endGroup(child.pid)
  signal.addEventListener('abort', stop)
  try {
    // The command may ignore its input.
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const [code, killedBy] = (await exit) as [number | null, NodeJS.Signals | null]
    if (code === null) throw new Error(`The command was ended by ${killedBy}.`)
    if (code !== 0) throw new Error(`The command exited with ${code}.`)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM')
  } catch {
    // It has just ended.
  }
}

/** The variables of a message. The sender chose its identity, which may be shown to a person or a model. */
function variablesOf(message: SavedMessage, { identity, dataDir }: HandlingAgent): Readonly<Record<string, string>> {
  const { channel, index, message_id: id, epoch, time, redelivered, sender, file } = message
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
    STATIC_SENDER_IDENTITY: shownIdentity(sender.identity),
    ...(file && fileVariables(file)),
  }
}

/** The file of a message. Its sender chose name and type, so only the safe form of them is here. */
function fileVariables({
  id,
  safe_name: name,
  type,
  size,
  path,
  error,
}: NonNullable<SavedMessage['file']>): Readonly<Record<string, string>> {
  return {
    STATIC_FILE_ID: id,
    STATIC_FILE_NAME: name,
    STATIC_FILE_TYPE: mediaType(type) ?? '',
    STATIC_FILE_SIZE: String(size),
    ...(path === undefined ? {} : { STATIC_FILE_PATH: path }),
    ...(error === undefined ? {} : { STATIC_FILE_ERROR: error.code }),
  }
}
