/** The database that a command uses. */

/** The flag, else `STATIC_DATABASE`; warns about a password on the command line, because `ps` shows it. */
export function databaseOf(flag: string | undefined): string | undefined {
  if (flag !== undefined && URL.parse(flag)?.password) {
    process.stderr.write(
      'static: other users of this machine can see the database password in the process list. Set STATIC_DATABASE instead.\n',
    )
  }
  return flag ?? process.env['STATIC_DATABASE']
}
