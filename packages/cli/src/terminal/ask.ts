/** Prompts on a terminal, and input from stdin without one. */
import { createInterface } from 'node:readline/promises'
import { StringDecoder } from 'node:string_decoder'
import { redactSecrets, StaticError } from '@static/protocol'
import { Interrupted } from './exit-codes.ts'

const CTRL_C = '\u0003'
const CTRL_D = '\u0004'
const CTRL_U = '\u0015'
const ESCAPE = '\u001B'
const BACKSPACES = new Set(['\u007F', '\b'])
/** The maximum length of an invite link. */
const LONGEST_SECRET = 8192

/** Whether a prompt is possible: stdin and stderr are both terminals. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY
}

/** Prompts for a line of text. */
export async function askLine(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const ended = Promise.withResolvers<never>()
  terminal.once('SIGINT', () => ended.reject(new Interrupted()))
  terminal.once('close', () => ended.reject(new Interrupted()))
  try {
    return (await Promise.race([terminal.question(`${redactSecrets(question)} `), ended.promise])).trim()
  } catch (error) {
    process.stderr.write('\n')
    throw error
  } finally {
    terminal.close()
  }
}

/** Asks for confirmation; throws without a terminal, or on any answer other than yes. */
export async function confirm(question: string): Promise<void> {
  if (!canAsk()) throw notATerminal()
  const answer = await askLine(`${question} [y/N]`)
  if (!/^y(es)?$/i.test(answer)) throw cancelled()
}

/** Asks for a name once more before something is lost for good; throws as `confirm` does. */
export async function confirmByName(consequence: string, name: string): Promise<void> {
  if (!canAsk()) throw notATerminal()
  const answer = await askLine(`${consequence}\nType its name to confirm:`)
  if (answer !== name) throw cancelled()
}

function notATerminal(): StaticError {
  return StaticError.of('invalid_request', 'Not a terminal, so I cannot ask. Pass --yes to continue.')
}

function cancelled(): StaticError {
  return StaticError.of('invalid_request', 'Cancelled. Nothing was changed.')
}

/** Prompts for a secret without echoing it. */
export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  const decoder = new StringDecoder('utf8')
  const signs: string[] = []
  const done = Promise.withResolvers<string>()
  const take = (chunk: Buffer): void => {
    const text = decoder.write(chunk)
    // Ignore escape sequences, such as those of the arrow keys.
    if (text.startsWith(ESCAPE)) return
    for (const sign of text) {
      if (sign === '\r' || sign === '\n') return done.resolve(signs.join(''))
      if (sign === CTRL_C || (sign === CTRL_D && signs.length === 0)) return done.reject(new Interrupted())
      if (BACKSPACES.has(sign)) signs.pop()
      else if (sign === CTRL_U) signs.length = 0
      else if (sign >= ' ' && signs.length < LONGEST_SECRET) signs.push(sign)
    }
  }
  const end = (): void => done.reject(new Interrupted())
  // Turn echo off before the prompt appears, or early keystrokes would be shown.
  stdin.setRawMode(true)
  stderr.write(`${question} `)
  stdin.on('data', take)
  stdin.once('end', end)
  stdin.resume()
  try {
    return await done.promise
  } finally {
    stdin.off('data', take)
    stdin.off('end', end)
    stdin.setRawMode(false)
    stdin.pause()
    stderr.write('\n')
  }
}

/**
 * Reads all of stdin.
 *
 * @throws {StaticError} the one `tooLarge` returns, if there are more than `maxBytes`
 */
export async function readInput(maxBytes: number, tooLarge: () => StaticError): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxBytes) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
