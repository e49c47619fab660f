/** How long the operator's links work. */
import { type Command, InvalidArgumentError } from 'commander'
import { shortTime } from '../../terminal/output.ts'
import type { DatabaseFlags } from './database.ts'

const MOST_HOURS = 720

/** Flags of every command that creates a link. */
export interface LinkFlags extends DatabaseFlags {
  readonly expires: number
}

/** Adds the flag for how long the link works. */
export function addExpiry(command: Command): Command {
  return command.option('--expires <hours>', `how long it works, 1 to ${MOST_HOURS} hours`, hours, 24)
}

/** The text on how long a link works. */
export function untilOf(expiresAt: string): string {
  return `it works once, until ${shortTime(expiresAt)}`
}

function hours(text: string): number {
  const count = Number(text)
  if (!/^\d{1,3}$/.test(text) || count < 1 || count > MOST_HOURS)
    throw new InvalidArgumentError(`Expected a number from 1 to ${MOST_HOURS}.`)
  return count
}
