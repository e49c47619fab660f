/** Errors as a model sees them. Their text may come from a relay or another service, so it is bounded. */
import { ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { printable } from '../terminal/output.ts'

/** An error in the result of a tool. */
export interface ToolError {
  readonly code: ErrorCode
  /** Static's own help for the code, unless the message is the same. */
  readonly help?: string
  readonly message: string
}

/** What programs and commands have, and what there is for a model and for its user in place of it. */
const NAMES: readonly (readonly [RegExp, string])[] = [
  [/open it with `client\.channel\(name\)`/g, 'pass its name as `channel`'],
  [/`client\.channels\(\)`/g, 'the tool `channels`'],
  [/Read or cancel some of them \(`channel\.asked\(\)`\)/g, 'Read their answers: ask with `request`'],
  [/A request to a member \(`channel\.ask`\)/g, 'A request to a member'],
  [/Correct the fields listed in `errors`/g, 'Correct the argument that the message names'],
  [
    /Check the identifier: the resource may have been revoked or deleted, or belong to another account/g,
    'Check the name: the tools `channels` and `members` list what there is',
  ],
  [/`maxUses`/g, '`uses`'],
  [/`admit: 'members'`/g, '`admit` members'],
  [/ or the option `acceptRelay`/g, ''],
  [/the option `apiUrl` or /g, ''],
  [/`relayName` or /g, ''],
  [/, another `dataDir` in a program/g, ''],
  [/`dataDir`/g, '`--data-dir`'],
]

/** More than Static's own sentences take, including a path or a list of members. */
const MOST_CHARACTERS = 1000

export function toolError(error: unknown): ToolError {
  const { code, message: text } = StaticError.from(error)
  const message = named(text)
  const help = named(ERRORS[code].help)
  // Any other error is a bug or a failed system call: its message is all the information there is.
  const words = error instanceof Error && !(error instanceof StaticError) ? ` (${error.message})` : ''
  return { code, ...(message !== help && { help }), message: errorText(`${message}${words}`) }
}

function named(text: string): string {
  return NAMES.reduce((said, [name, other]) => said.replace(name, other), text)
}

/** Escapes invisible characters and truncates the text if it is too long. */
export function errorText(text: string): string {
  const line = printable(text.slice(0, MOST_CHARACTERS))
  const isWhole = Math.max(line.length, text.length) <= MOST_CHARACTERS
  return isWhole ? line : `${line.slice(0, MOST_CHARACTERS)}…`
}
