/** The examples under the help of a command. */

/** Text for `addHelpText('after', …)`: one line of shell each. */
export function examples(...lines: readonly string[]): string {
  return `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.map((line) => `  $ ${line}`).join('\n')}`
}
