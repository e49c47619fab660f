/** Which database a command means. */

/** The flag, else `STATIC_DATABASE`; a password on the command line gets a warning, because `ps` shows it. */
export function databaseOf(flag: string | undefined): string | undefined {
  if (flag !== undefined && URL.parse(flag)?.password) {
    process.stderr.write(
      'static: other users can see this password in the process list; set STATIC_DATABASE instead.\n',
    )
  }
  return flag ?? process.env['STATIC_DATABASE']
}
