/** What the agent keeps of a Welcome that the relay delivers. */
import { create } from '@bufbuild/protobuf'
import { CHANNEL_ID_BYTES, type ChannelName, HASH_BYTES, isChannelName, StaticError } from '@static/protocol'
import { type DeliverWelcome, DeliverWelcomeSchema } from '@static/protocol/relay'
import { checkWelcomeSize } from './offer-limits.ts'

/** A Welcome whose fields have the size that they may have. */
export type CheckedWelcome = DeliverWelcome & { readonly name: ChannelName }

/**
 * Checks the size of a Welcome, before anything is parsed. Returns a copy of what is kept of it: the fields are views of
 * the bytes that were received, which may be far more.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export function checkWelcome({ channelId, name, welcome, position }: DeliverWelcome): CheckedWelcome {
  const { welcome: bytes = NONE, inviteId = NONE, tag = NONE } = welcome ?? {}
  const { index = 0n, hash = NONE, slot = 0n } = position ?? {}
  checkWelcomeSize(bytes)
  if (!isChannelName(name))
    throw StaticError.of('invalid_welcome', 'The channel offered by the Welcome has no valid name.')
  if (channelId.length !== CHANNEL_ID_BYTES)
    throw StaticError.of('invalid_welcome', `The id of channel ${name} has ${channelId.length} bytes, not 16.`)
  const copy = create(DeliverWelcomeSchema, {
    channelId: Uint8Array.from(channelId),
    name,
    welcome: { welcome: Uint8Array.from(bytes), inviteId: short(inviteId), tag: short(tag) },
    position: { index, hash: short(hash), slot },
  })
  return Object.assign(copy, { name })
}

const NONE = new Uint8Array()

/** A copy, or nothing if it is longer than it can be: as wrong as it was. */
function short(bytes: Uint8Array): Uint8Array {
  return bytes.length > HASH_BYTES ? NONE : Uint8Array.from(bytes)
}
