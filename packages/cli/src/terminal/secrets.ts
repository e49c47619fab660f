/**
 * Reads passwords, keys and tokens from a hidden prompt, stdin or a file. They also work as arguments, with a warning,
 * because other users of the machine can see the arguments of every process.
 */
import { createReadStream } from 'node:fs'
import { StaticError } from '@static/protocol'
import { askSecret, canAsk, readInput } from './ask.ts'
import { note } from './output.ts'

/** The possible sources of a secret; the first one given wins. */
export interface SecretSource {
  /** `password`, `API key`, `token`. */
  readonly what: string
  readonly argument?: string | undefined
  readonly file?: string | undefined
  /** Read it from stdin; the default if stdin is not a terminal, unless `askOnly`. */
  readonly stdin?: boolean | undefined
  /** Safer ways to pass it, for the warning and for the error without a terminal. */
  readonly instead: string
  /** Read stdin only if `stdin` is set. */
  readonly askOnly?: boolean
}

const LONGEST = 8192

/** Warns about a secret passed as an argument and names a safer way. */
export function warnOfArgument(what: string, instead: string): void {
  note(`other users of this machine can see the ${what} in the process list. Instead, ${instead}.`)
}

/**
 * Reads a secret from its source.
 *
 * @throws {StaticError} `invalid_request` if there is none, or if the file cannot be read
 */
export async function secretOf(source: SecretSource): Promise<string> {
  const secret = await find(source)
  if (secret === '')
    throw StaticError.of('invalid_request', `The ${source.what} is empty. It must have at least one character.`)
  return secret
}

async function find({ what, argument, file, stdin, instead, askOnly }: SecretSource): Promise<string> {
  if (argument !== undefined) {
    warnOfArgument(what, `use ${instead}`)
    return argument
  }
  if (file !== undefined) return firstLine(await readSecret(file), what)
  if (stdin === true || (stdin === undefined && askOnly !== true && !process.stdin.isTTY)) {
    return firstLine(await readInput(LONGEST, () => tooLong(what)), what)
  }
  if (canAsk()) return await askSecret(`${what.charAt(0).toUpperCase()}${what.slice(1)}:`)
  throw StaticError.of('invalid_request', `Not a terminal, so I cannot ask for the ${what}. Pass it with ${instead}.`)
}

async function readSecret(file: string): Promise<Buffer> {
  try {
    // At most one byte over the limit: a device file may never end.
    return Buffer.concat((await createReadStream(file, { end: LONGEST }).toArray()) as Buffer[])
  } catch (cause) {
    throw StaticError.of('invalid_request', `Cannot read file ${file}. Check that it exists and is readable.`, {
      cause,
    })
  }
}

/** Strips the line feed that editors and `echo` append. */
function firstLine(bytes: Buffer, what: string): string {
  if (bytes.length > LONGEST) throw tooLong(what)
  const text = bytes.toString().replace(/\r?\n$/, '')
  if (/[\r\n]/.test(text))
    throw StaticError.of('invalid_request', `The ${what} has more than one line. It must be a single line.`)
  return text
}

function tooLong(what: string): StaticError {
  return StaticError.of('invalid_request', `The ${what} is too long (limit: ${LONGEST} bytes).`)
}
