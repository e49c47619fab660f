/** Flags for options of a client. */
import { Option } from 'commander'
import { type ClientOption, OPTIONS } from '@static/sdk/account'

/**
 * A flag for an option of a client, whose choices it takes. Its help names the sources of the default: the option's
 * variable, the saved value, then `otherwise`.
 */
export function clientFlag(option: keyof typeof OPTIONS, flags: string, about: string, otherwise?: string): Option {
  const entry: ClientOption = OPTIONS[option]
  const isChoice = entry.kind === 'choice'
  const sources = [entry.variable, entry.file && 'the saved one', isChoice ? entry.usual : otherwise]
  const flag = new Option(flags, `${about} (default: ${sources.filter(Boolean).join(', then ')})`)
  return isChoice ? flag.choices(entry.choices) : flag
}
