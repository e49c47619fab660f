/**
 * Passwords, keys and tokens on their way in: by a hidden prompt, stdin or a file. As an argument they work, too, with a
 * warning: other users of the machine can see the arguments of every process.
 */
import { createReadStream } from 'node:fs'
import { StaticError } from '@static/protocol'
import { askSecret, canAsk, readInput } from './ask.ts'
import { note } from './output.ts'

/** Where a secret may come from; the first that is given counts. */
export interface SecretSource {
  /** `password`, `API key`, `token`. */
  readonly what: string
  readonly argument?: string | undefined
  readonly file?: string | undefined
  /** Read it from stdin; by default when stdin is no terminal, unless `askOnly`. */
  readonly stdin?: boolean | undefined
  /** How to give it otherwise, for the warning and for those who cannot be asked. */
  readonly instead: string
  /** Stdin is taken only when `stdin` says so. */
  readonly askOnly?: boolean
}

const LONGEST = 8192

/** Warns of a secret among the arguments, and names the other way. */
export function warnOfArgument(what: string, instead: string): void {
  note(`other users of this machine can see the ${what} in the process list; better: ${instead}.`)
}

/**
 * Gets a secret.
 *
 * @throws {StaticError} `invalid_request` when there is none, or the file cannot be read
 */
export async function secretOf(source: SecretSource): Promise<string> {
  const secret = await find(source)
  if (secret === '') throw StaticError.of('invalid_request', `The ${source.what} is empty.`)
  return secret
}

async function find({ what, argument, file, stdin, instead, askOnly }: SecretSource): Promise<string> {
  if (argument !== undefined) {
    warnOfArgument(what, instead)
    return argument
  }
  if (file !== undefined) return firstLine(await readSecret(file), what)
  if (stdin === true || (stdin === undefined && askOnly !== true && !process.stdin.isTTY)) {
    return firstLine(await readInput(LONGEST, () => tooLong(what)), what)
  }
  if (canAsk()) return await askSecret(`${what.charAt(0).toUpperCase()}${what.slice(1)}:`)
  throw StaticError.of('invalid_request', `Nobody can be asked for the ${what} here: give it by ${instead}.`)
}

async function readSecret(file: string): Promise<Buffer> {
  try {
    // One byte more than any has: a device has no end.
    return Buffer.concat((await createReadStream(file, { end: LONGEST }).toArray()) as Buffer[])
  } catch (cause) {
    throw StaticError.of('invalid_request', `The file ${file} cannot be read.`, { cause })
  }
}

/** Without the line feed that editors and `echo` put at the end. */
function firstLine(bytes: Buffer, what: string): string {
  if (bytes.length > LONGEST) throw tooLong(what)
  const text = bytes.toString().replace(/\r?\n$/, '')
  if (/[\r\n]/.test(text)) throw StaticError.of('invalid_request', `The ${what} must be one line.`)
  return text
}

function tooLong(what: string): StaticError {
  return StaticError.of('invalid_request', `That is too long to be a ${what}.`)
}
