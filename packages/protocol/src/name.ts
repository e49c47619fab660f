/** Channel names: `org/namespace/service` (SPEC.md, "Names"). */
import { StaticError } from './errors/errors.ts'
import { ERRORS } from './errors/table.ts'

declare const brand: unique symbol

/** A validated channel name. */
export type ChannelName = string & { readonly [brand]: 'ChannelName' }

const COMPONENT = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'

/** The form of a channel name, as a regular expression. */
export const CHANNEL_NAME_PATTERN: string = `^${COMPONENT}/${COMPONENT}/${COMPONENT}$`
const NAME = new RegExp(CHANNEL_NAME_PATTERN)

/** Three components of 63 characters and two slashes. */
export const MAX_NAME_LENGTH = 191

/** Whether a value is a channel name: three components of 1–63 a–z, 0–9 and hyphens, no hyphen at either end. */
export function isChannelName(text: unknown): text is ChannelName {
  return typeof text === 'string' && text.length <= MAX_NAME_LENGTH && NAME.test(text)
}

/**
 * Checks a channel name.
 *
 * @throws {StaticError} `channel_error` if the text is not a valid name
 */
export function parseChannelName(text: string): ChannelName {
  if (!isChannelName(text)) {
    throw StaticError.of('channel_error', `Invalid channel name ${shown(text)}. ${ERRORS.channel_error.remedy}`)
  }
  return text
}

/** The quoted and shortened name, because it may be any value of any length. */
function shown(text: unknown): string {
  const quoted = JSON.stringify(String(text))
  return quoted.length <= 80 ? quoted : `${quoted.slice(0, 76)}…"`
}
