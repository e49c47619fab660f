/** The databases that a command uses. */
import { secretOf } from './secret.ts'

/** A password in a URL; `URL` does not parse one with several hosts. */
const PASSWORD = /^[a-z]+:\/\/[^@/]*:[^@/]+@/

/**
 * The flag, or `STATIC_DATABASE`, or the file in `STATIC_DATABASE_FILE`. Warns about a password on the command line,
 * because `ps` shows it.
 */
export function databaseOf(flag: string | undefined): string | undefined {
  return read(flag, 'STATIC_DATABASE')
}

/**
 * The relay's database: the flag, or `STATIC_RELAY_DATABASE`, or the file in `STATIC_RELAY_DATABASE_FILE`. Never the
 * API's, whose tables the relay must not be able to read.
 */
export function relayDatabaseOf(flag: string | undefined): string | undefined {
  return read(flag, 'STATIC_RELAY_DATABASE')
}

function read(flag: string | undefined, variable: string): string | undefined {
  if (flag !== undefined && PASSWORD.test(flag)) {
    process.stderr.write(
      `static: other users of this machine can see the database password in the process list. Set ${variable} instead.\n`,
    )
  }
  return flag ?? secretOf(variable)
}
