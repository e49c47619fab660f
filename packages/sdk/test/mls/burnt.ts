/** A group in which the relay has refused many commits, without the time that it takes to make them. */
import type { SignatureKeyPair } from '@static/node/ed25519'
import type { Group } from '../../src/mls/engine.ts'
import { withHandshakeUsed } from '../../src/mls/ts-mls/handshake.ts'
import { enclose, inside, outside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from './attacker.ts'

/** The same group after so many more commits of its agent. */
export function burnt(group: Group, key: SignatureKeyPair, commits: number): Group {
  let { state } = inside(group)
  for (let made = 0; made < commits; made++) state = withHandshakeUsed(state)
  return outside(enclose(crypto, state, key))
}
