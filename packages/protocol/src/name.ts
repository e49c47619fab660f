/** Channel names: `org/namespace/service` (SPEC.md, "Names"). */
import { StaticError } from './errors/errors.ts'

declare const brand: unique symbol

/** A channel name that has been checked. */
export type ChannelName = string & { readonly [brand]: 'ChannelName' }

const COMPONENT = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const NAME = new RegExp(`^${COMPONENT}/${COMPONENT}/${COMPONENT}$`)

/** The longest name: three components and two slashes. */
export const MAX_NAME_LENGTH = 191

/** Whether something is a channel name: three components of 1–63 a–z, 0–9 and hyphens, no hyphen at either end. */
export function isChannelName(text: unknown): text is ChannelName {
  return typeof text === 'string' && text.length <= MAX_NAME_LENGTH && NAME.test(text)
}

/**
 * The text as a channel name.
 *
 * @throws {StaticError} `channel_error` when it is not one
 */
export function parseChannelName(text: string): ChannelName {
  if (!isChannelName(text)) throw StaticError.of('channel_error')
  return text
}
