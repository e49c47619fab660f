/** The examples section of a help page. */

/** Text for `addHelpText('after', …)`; each argument is one shell command. */
export function examples(...lines: readonly string[]): string {
  return `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.map((line) => `  $ ${line}`).join('\n')}`
}
