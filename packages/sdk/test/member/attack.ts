/** What an attack is, and what the model expects of honest members after it. */
import type { ClientState } from 'ts-mls'
import type { ListedInvite } from '../../src/admitting/invite-list.ts'
import type { InviteKeys } from '../../src/admitting/keys.ts'
import type { AgentId } from '../../src/ports/index.ts'
import type { Office } from '../support/office.ts'
import type { Player, Stage } from '../support/stage.ts'
import type { Attacker } from './attacker.ts'

/** What must follow from an attack. Without any of these: nothing. */
export interface Effect {
  /** Every member skips its commit, for this reason if one is named. */
  readonly skipped?: string | true
  /** Every member follows its commit, or none does, and the attacker goes on with this state. */
  readonly together?: ClientState
  /** Every member follows its commit. */
  readonly followed?: ClientState
  /** Every member reports that it has seen a different log. */
  readonly fork?: AgentId
  /** These cannot follow its commit. Whoever is not where the owner is stops, and nobody else. */
  readonly divided?: readonly Player[]
  /** The owner has named the attacker as its standby before, in a commit that all follow. */
  readonly named?: true
  /** Its messages have a hole now, which it or its next message may show as a different log. */
  readonly hole?: true
  /** The relay has cut this member off for it. */
  readonly cutOff?: Player
  /** It is the attacker's last one, because its keys or its place do not fit afterwards. */
  readonly last?: true
}

/** An invite of the owner. */
export interface OpenInvite {
  readonly keys: InviteKeys
  readonly listed: ListedInvite
}

/** What an attack acts on. */
export interface Scene {
  readonly stage: Stage
  readonly attacker: Attacker
  readonly owner: Player
  /** Somebody else. */
  readonly victim: Player
  /** One that members may use. The attacker has its token. */
  readonly invite: OpenInvite
  /** Who vouches for honest members, if they prove who they are. The attacker is not one of its own. */
  readonly office?: Office | undefined
}

/** Its name, and what it does; undefined if it is not possible now. */
export type Attack = readonly [string, (scene: Scene) => Promise<Effect | undefined> | Effect | undefined]
