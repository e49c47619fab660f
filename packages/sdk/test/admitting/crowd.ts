/**
 * A channel in memory whose members admit joiners by invites that they may use. Its relay counts no uses, so what keeps
 * the count is the members alone.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import { fromHex, toHex } from '@static/protocol'
import { type JoinRequest, JoinRequestSchema } from '@static/protocol/relay'
import type { ListedInvite } from '../../src/admitting/invite-list.ts'
import { sealRequest } from '../../src/joining/request.ts'
import { IssuedInvites } from '../../src/admitting/issued.ts'
import { type InviteKeys, inviteKeys } from '../../src/admitting/keys.ts'
import { admitAsMember } from '../../src/admitting/admit.ts'
import { SharedInvites } from '../../src/admitting/shared.ts'
import type { AgentId } from '../../src/ports/index.ts'
import { NAME } from '../mls/support.ts'
import { outsider, type Player, type PlayerOptions, Stage, type StageOptions } from '../support/stage.ts'

/** One that asks to join. */
export interface Joiner {
  readonly name: string
  readonly agentId: AgentId
  readonly request: JoinRequest
  /** Follows the channel from its Welcome on, which is on disk then. */
  enter(): Promise<Player>
}

/** A crowd with one open invite, and one that asks with it. */
interface Opened {
  readonly crowd: Crowd
  readonly stage: Stage
  readonly owner: Player
  readonly invite: ReturnType<Crowd['invite']>
  readonly joiner: Joiner
}

/** The members of most crowds. The first owns the channel. */
export const NAMES: readonly string[] = ['owner', 'bob', 'carol', 'mallory']

/** Four members that may admit with an invite, and one that asks. */
export async function openCrowd(maxUses: number, lifetimeMs?: number): Promise<Opened> {
  const crowd = await Crowd.start(NAMES)
  const invite = crowd.invite(maxUses, lifetimeMs)
  await crowd.publish(invite)
  const joiner = await crowd.joiner('joiner', invite.keys)
  return { crowd, stage: crowd.stage, owner: crowd.owner, invite, joiner }
}

/** A stage, its invites and its joiners. */
export class Crowd {
  readonly stage: Stage
  /** Those who are admitting, by name. */
  readonly #admitting = new Map<string, Player>()
  /** Failures of admitting, which must not happen. */
  readonly failures: unknown[] = []

  private constructor(stage: Stage) {
    this.stage = stage
  }

  /** A channel of these members, of which the first owns it. */
  static async start(names: readonly string[], options: StageOptions = {}): Promise<Crowd> {
    return new Crowd(await Stage.start(names, options))
  }

  get owner(): Player {
    return this.stage.players.find(({ agentId }) => agentId === this.stage.owner) ?? assert.fail('no owner')
  }

  /** What a token to the channel would give. */
  invite(maxUses: number, lifetimeMs = 3_600_000): { readonly keys: InviteKeys; readonly listed: ListedInvite } {
    const keys = inviteKeys(randomBytes(32))
    const expiresAt = this.stage.now + lifetimeMs
    return { keys, listed: { id: toHex(keys.inviteId), members: keys.members, expiresAt, maxUses } }
  }

  /** The owner tells the group which invites are open. */
  async publish(...invites: readonly { readonly listed: ListedInvite }[]): Promise<void> {
    void this.owner.channel.listedInvites.publish(invites.map(({ listed }) => listed))
    await this.stage.settle()
  }

  async joiner(name: string, keys: InviteKeys, options: PlayerOptions = {}): Promise<Joiner> {
    const { stage } = this
    const person = await outsider(stage, name, options)
    const { keyPackage, agentId } = person
    const place = { channelId: stage.channelId, name: NAME, owner: fromHex(stage.owner) }
    const box = sealRequest(keys, place, { nonce: randomBytes(16), keyPackage })
    return {
      name,
      agentId: toHex(agentId),
      request: create(JoinRequestSchema, { inviteId: keys.inviteId, agentId, box }),
      enter: async () => {
        const player = await person.join(this.welcomeOf(toHex(agentId)), keys)
        player.journal.flush()
        return player
      },
    }
  }

  /** A member gets requests from the relay, unless it is still busy with others. */
  poll(player: Player, requests: readonly JoinRequest[]): void {
    if (this.#admitting.get(player.name) === player || requests.length === 0) return
    this.#admitting.set(player.name, player)
    const timers = { wait: (ms: number) => new Promise<void>((resolve) => void player.later(ms, resolve)) }
    admitAsMember({ context: player, timers } as never, player.channel, requests)
      .catch((error: unknown) => void this.failures.push(error))
      .finally(() => {
        if (this.#admitting.get(player.name) === player) this.#admitting.delete(player.name)
      })
  }

  /** Who was added by any invite, as the log says. */
  get added(): readonly AgentId[] {
    return this.stage.log.flatMap((entry) =>
      entry.kind === 'commit' ? entry.request.welcomes.filter(isInvited).map(({ agentId }) => toHex(agentId)) : [],
    )
  }

  /** The last Welcome of an agent. */
  welcomeOf(agentId: AgentId): Uint8Array {
    for (const entry of this.stage.log.toReversed()) {
      if (entry.kind !== 'commit') continue
      const welcome = entry.request.welcomes.find((one) => toHex(one.agentId) === agentId)
      if (welcome) return Buffer.concat([welcome.welcome, entry.request.groupInfo])
    }
    return assert.fail('It has no Welcome.')
  }
}

/** The owner's records of invites, as they are on disk. The relay accepts what they ask. */
export function shared(owner: Player): { readonly issued: IssuedInvites; readonly sharing: SharedInvites } {
  const { channel } = owner
  const requests = { ask: () => Promise.resolve(), outcome: () => Promise.resolve({ type: 'answered' }) }
  const { invites, joiners } = owner.store.load()
  const stored = { invites, joiners }
  const agent = { context: owner, requests, stored, channels: new Map([[channel.id, channel]]) }
  const issued = new IssuedInvites(agent as never)
  const useReturned = (invite: string): void => void issued.returnUse(invite, true)
  owner.invites = { ...IGNORED, useReturned }
  return { issued, sharing: new SharedInvites(agent, issued) }
}

const nothing = (): void => {}
const IGNORED = {
  helloOrGreeting: nothing,
  accepted: nothing,
  leaving: nothing,
  admitted: nothing,
  added: nothing,
  listChanged: nothing,
  ownerChanged: nothing,
  useCounted: nothing,
  welcomed: () => undefined,
  removing: () => Promise.resolve(nothing),
}

function isInvited({ inviteId }: { readonly inviteId: Uint8Array }): boolean {
  return inviteId.length > 0
}
