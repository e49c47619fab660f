/** The logger of an application. */

/** Gets warnings, one text for each: the console, or a logger such as pino or winston. */
export interface Logger {
  /** Called with the warning: a sentence, and the lines of the stack. */
  warn(text: string): void
}
