/** The Welcome of an invite, as its joiner checks it (SPEC.md, 6.3). */
import { sameBytes } from '@static/node/compare'
import { fromHex, StaticError } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import type { Joined } from '../mls/index.ts'
import type { Attempt } from './attempt.ts'
import { welcomeTag } from '../admitting/keys.ts'

/**
 * Opens a Welcome for a request.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export async function openWelcome(
  { context: { engine, key }, keyPackages }: Pick<AgentServices, 'context' | 'keyPackages'>,
  { record, keys }: Pick<Attempt, 'record' | 'keys'>,
  welcome: Uint8Array,
  tag: Uint8Array,
): Promise<Joined> {
  const { privatePart, keyPackage } = keyPackages.forWelcome(welcome)
  const { channel, name, admit } = record
  const owner = fromHex(record.owner)
  const expected = { channelId: fromHex(channel), name, owner, ...(admit === 'owner' && { signer: owner }) }
  const joined = await engine.join(welcome, privatePart, key, expected)
  const { epochAuthenticator } = engine.facts(joined.group)
  const isRight = sameBytes(welcomeTag(keys, keyPackage, welcome, epochAuthenticator), tag)
  if (same(keyPackage, record.keyPackage) && isRight) return joined
  wipeEpoch(engine, joined)
  throw StaticError.of('invalid_welcome', 'The Welcome was not created by a holder of the invite token.')
}
