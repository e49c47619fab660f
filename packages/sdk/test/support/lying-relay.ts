/**
 * A relay in memory, made for lying. By itself it keeps the contract (SPEC.md, 3.4), as far as agents can tell; a test
 * lies through it: by a member's view (`Room`), by other answers (`answer`), by words that nobody asked for (`push`).
 * It checks hardly anything, because it is the one that is to be checked.
 */
import { randomBytes } from 'node:crypto'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { fromHex, REVISION, toHex } from '@static/protocol'
import type { WireForm } from '@static/protocol/envelope'
import {
  type AckRequest,
  type DeliverWelcome,
  type Error as Refusal,
  ServerMessageSchema,
} from '@static/protocol/relay'
import { agentIdOf } from '../../src/mls/index.ts'
import type { AgentId, ChannelId, RequestBody, ServerBody, StreamHandlers } from '../../src/ports/index.ts'
import type { MemoryPeer } from '@static/testkit/transport/memory'
import { Line, type LineOwner, Tape } from './lying-line.ts'
import { Room, withoutBody } from './lying-room.ts'

/** Says what an agent is answered; undefined: nothing, ever. `honest` does what was asked and gives the true answer. */
export type Answer = (
  agent: AgentId,
  asked: RequestBody,
  honest: () => ServerBody | undefined,
) => ServerBody | undefined

/** A join request that waits. */
export interface Join {
  readonly inviteId: Uint8Array
  readonly agentId: Uint8Array
  readonly box: Uint8Array
}

interface Poll {
  readonly line: Line
  readonly requestId: bigint
  readonly channel: ChannelId
}

type Asked<Case extends RequestBody['case']> = Extract<RequestBody, { readonly case: Case }>['value']

type BodyInit = NonNullable<MessageInitShape<typeof ServerMessageSchema>['body']>

/** The relay. */
export class LyingRelay implements LineOwner {
  readonly rooms: Map<ChannelId, Room> = new Map()
  readonly keyPackages: Map<AgentId, Uint8Array[]> = new Map()
  /** Invite id → its channel. */
  readonly invites: Map<string, ChannelId> = new Map()
  /** Invite id → the key to which requests are encrypted, if its owner asks for a proof. */
  readonly boxKeys: Map<string, Uint8Array> = new Map()
  /** Join requests that the owner has not been given, and those that it has. */
  readonly joins: Join[] = []
  readonly given: Join[] = []
  /** Everything that was asked, in order. */
  readonly asked: { readonly agent: AgentId; readonly body: RequestBody }[] = []
  /** Where agents have dialled. */
  readonly dialled: string[] = []
  answer: Answer = (_agent, _asked, honest) => honest()
  /** A Welcome on its way to its agent; undefined withholds it. */
  welcome: (welcome: DeliverWelcome) => DeliverWelcome | undefined = (welcome) => welcome
  readonly #id = new Uint8Array(randomBytes(32))
  readonly #tape: Tape | undefined
  readonly #lines = new Map<AgentId, Line>()
  readonly #welcomes: { readonly agent: AgentId; readonly welcome: DeliverWelcome }[] = []
  #polls: Poll[] = []
  #happened = Promise.withResolvers<void>()

  /** Without a tape, for long runs, it cannot tell what it saw. */
  constructor({ tape = true }: { readonly tape?: boolean } = {}) {
    this.#tape = tape ? new Tape() : undefined
  }

  /** For `makeMemoryTransport`. */
  accept(peer: MemoryPeer, form: WireForm): StreamHandlers {
    this.dialled.push(peer.target.host)
    return new Line(peer, form, this.#tape, this)
  }

  /** Whether some bytes have passed here in a form that can be read. */
  sawPlaintext(canary: string): boolean {
    if (!this.#tape) throw new Error('This relay has no tape.')
    return this.#tape.holds(Buffer.from(canary))
  }

  /** The channel of an id, or the only one. */
  room(id?: ChannelId): Room {
    const room = id === undefined ? [...this.rooms.values()][0] : this.rooms.get(id)
    if (!room) throw new Error('There is no such channel.')
    return room
  }

  /** Tells an agent something unasked. */
  push(agent: AgentId, body: ServerBody): void {
    this.#lines.get(agent)?.say(0n, body)
  }

  /** Delivers a Welcome, again in every session until it is acknowledged. */
  welcomeTo(agent: AgentId, welcome: DeliverWelcome): void {
    this.#welcomes.push({ agent, welcome })
    if (this.#lines.get(agent)?.resumed) this.push(agent, { case: 'deliverWelcome', value: welcome })
  }

  /** How many Welcomes an agent has not acknowledged. */
  unread(agent: AgentId): number {
    return this.#welcomes.filter((waiting) => waiting.agent === agent).length
  }

  /** What an agent has asked, of one kind. */
  requests<Case extends RequestBody['case']>(agent: AgentId, name: Case): Asked<Case>[] {
    return this.asked.flatMap(({ agent: by, body }) =>
      by === agent && body.case === name ? [body.value as unknown as Asked<Case>] : [],
    )
  }

  /** Ends an agent's stream; it dials again. */
  cut(agent: AgentId): void {
    this.#lines.get(agent)?.peer.cut()
  }

  /** Gives every member what it has not been given. */
  deliver(): void {
    for (const { views } of this.rooms.values()) {
      for (const [agent, view] of views) {
        while (view.live && view.delivered < view.position.index) {
          const entry = view.entry(++view.delivered)
          if (entry && view.delivered !== view.hole)
            this.push(agent, toHex(entry.value.sender) === agent ? withoutBody(entry) : entry)
        }
      }
    }
  }

  /** Hands the join requests that wait to whoever asks for them. */
  handOut(): void {
    this.#polls = this.#polls.filter(({ line, requestId, channel }) => {
      const requests = this.joins.filter(({ inviteId }) => this.invites.get(toHex(inviteId)) === channel)
      if (requests.length === 0) return true
      for (const join of requests) this.given.push(...this.joins.splice(this.joins.indexOf(join), 1))
      line.say(requestId, answering({ case: 'pollJoinRequests', value: { requests } }))
      return false
    })
  }

  /** Waits until something holds; looked at after everything that agents do. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#happened.promise
  }

  /** Waits until these agents have taken, and written down, all that they were shown. */
  async read(room: Room, ...agents: readonly AgentId[]): Promise<void> {
    await this.until(() => agents.every((agent) => room.view(agent).cursor === room.view(agent).position.index))
  }

  // ---- What comes by the lines ----

  request(line: Line, requestId: bigint, body: RequestBody): void {
    const { agent = '' } = line
    if (body.case === 'getChallenge') {
      const challenge = { nonce: randomBytes(32), relayName: line.peer.target.serverName, relayId: this.#id }
      line.say(requestId, answering({ case: body.case, value: { ...challenge, revision: REVISION } }))
    } else if (body.case === 'openSession') {
      this.#open(line, toHex(agentIdOf(body.value.publicKey)))
      const timing = { pingIntervalMs: 60_000, pingTimeoutMs: 60_000 }
      const keyPackages = this.#pool(line.agent ?? '').length
      const expiresInMs = body.value.jwt === '' ? 0 : 3_600_000
      line.say(requestId, answering({ case: body.case, value: { ...timing, keyPackages, expiresInMs } }))
    } else {
      this.asked.push({ agent, body })
      const after: (() => void)[] = []
      const answer = this.answer(agent, body, () => this.#honest(line, requestId, agent, body, after))
      if (answer) line.say(requestId, answer)
      for (const action of after) action()
      this.deliver()
      this.#wake()
    }
  }

  acknowledged({ agent = '' }: Line, { positions }: AckRequest): void {
    for (const { channelId, index } of positions) {
      const id = toHex(channelId)
      const view = this.rooms.get(id)?.views.get(agent)
      if (view) view.cursor = Math.max(view.cursor, Math.min(Number(index), view.delivered))
      const at = this.#welcomes.findIndex((one) => one.agent === agent && toHex(one.welcome.channelId) === id)
      if (at >= 0) this.#welcomes.splice(at, 1)
    }
    this.#wake()
  }

  closed(line: Line): void {
    const { agent = '' } = line
    if (this.#lines.get(agent) === line) this.#lines.delete(agent)
    this.#polls = this.#polls.filter((poll) => poll.line !== line)
  }

  // ---- The contract ----

  #open(line: Line, agent: AgentId): void {
    line.agent = agent
    this.#lines.set(agent, line)
    for (const { views } of this.rooms.values()) {
      const view = views.get(agent)
      if (view) view.live = false
    }
  }

  /** Does what was asked and says what is to be answered; what comes after the answer goes to `after`. */
  #honest(
    line: Line,
    requestId: bigint,
    agent: AgentId,
    body: RequestBody,
    after: (() => void)[],
  ): ServerBody | undefined {
    switch (body.case) {
      case 'createChannel': {
        const { channelId, name, welcome } = body.value
        const id = toHex(channelId)
        const isTaken = [...this.rooms].some(
          ([other, room]) => room.name === name && room.owner === agent && other !== id,
        )
        if (isTaken) return refusing({ code: 'channel_exists' })
        if (!this.rooms.has(id)) this.rooms.set(id, new Room(Uint8Array.from(channelId), name, agent))
        return answering({ case: body.case, value: { channelId, welcome, guestLimit: 1000 } })
      }
      case 'deleteChannel': {
        const { channel } = body.value
        const room = channel.case === 'channelId' ? this.rooms.get(toHex(channel.value)) : undefined
        if (!room) return refusing({ code: 'not_found' })
        this.rooms.delete(toHex(room.channelId))
        const told = answering({ case: 'channelDeleted', value: { channelId: room.channelId, name: room.name } })
        after.push(() => [...room.views.keys()].forEach((member) => this.push(member, told)))
        return answering({ case: body.case, value: {} })
      }
      case 'uploadKeyPackage': {
        const pool = this.#pool(agent)
        pool.push(...body.value.keyPackages.map((bytes) => Uint8Array.from(bytes)))
        return answering({ case: body.case, value: { held: pool.length } })
      }
      case 'addMember': {
        const keyPackage = this.#pool(toHex(body.value.agentId)).shift()
        return keyPackage
          ? answering({ case: body.case, value: { keyPackage } })
          : refusing({ code: 'key_package_unavailable' })
      }
      case 'resume':
        return this.#resume(line, agent, body.value.channelIds.map(toHex), after)
      case 'sendMessage':
      case 'sendCommit':
      case 'leave':
      case 'rejectCommit':
        return this.#inRoom(agent, body, after)
      case 'registerInvite':
        this.invites.set(toHex(body.value.inviteId), toHex(body.value.channelId))
        this.boxKeys.set(toHex(body.value.inviteId), Uint8Array.from(body.value.boxKey))
        return answering({ case: body.case, value: {} })
      case 'revokeInvite':
        this.invites.delete(toHex(body.value.inviteId))
        return answering({ case: body.case, value: {} })
      case 'requestJoin': {
        const { inviteId, box } = body.value
        if (!this.invites.has(toHex(inviteId))) return refusing({ code: 'invite_invalid' })
        if (box.length === 0)
          return answering({ case: body.case, value: { boxKey: this.boxKeys.get(toHex(inviteId)) ?? box } })
        const join = { inviteId: Uint8Array.from(inviteId), agentId: fromHex(agent), box: Uint8Array.from(box) }
        after.push(() => {
          this.joins.push(join)
          this.handOut()
        })
        return answering({ case: body.case, value: {} })
      }
      case 'pollJoinRequests':
        // Answered when there is something to tell.
        this.#polls.push({ line, requestId, channel: toHex(body.value.channelId) })
        after.push(() => this.handOut())
        return undefined
      case 'answerJoin': {
        const { inviteId, agentId, code } = body.value
        const told = answering({ case: 'joinAnswered', value: { inviteId, code } })
        after.push(() => this.push(toHex(agentId), told))
        return answering({ case: body.case, value: {} })
      }
      default:
        return refusing({ code: 'invalid_request' })
    }
  }

  #resume(line: Line, agent: AgentId, ids: readonly ChannelId[], after: (() => void)[]): ServerBody {
    const rooms = [...this.rooms.values()].filter(({ channelId, views }) =>
      ids.length === 0 ? views.get(agent)?.ended === false : ids.includes(toHex(channelId)),
    )
    for (const { views } of rooms) {
      const view = views.get(agent)
      if (!view) continue
      view.delivered = view.cursor
      after.push(() => (view.live = true))
    }
    if (!line.resumed) {
      line.resumed = true
      for (const waiting of this.#welcomes) {
        if (waiting.agent !== agent) continue
        after.push(() => this.push(agent, { case: 'deliverWelcome', value: waiting.welcome }))
      }
    }
    return answering({ case: 'resume', value: { channels: rooms.map((room) => room.state(agent)) } })
  }

  #inRoom(
    agent: AgentId,
    body: Extract<RequestBody, { readonly case: 'sendMessage' | 'sendCommit' | 'leave' | 'rejectCommit' }>,
    after: (() => void)[],
  ): ServerBody {
    const room = this.rooms.get(toHex(body.value.channelId))
    const view = room?.views.get(agent)
    if (!room || !view) return refusing({ code: 'not_found' })
    if (body.case === 'rejectCommit') {
      room.votes.push(`${agent} ${body.value.slot}`)
      return answering({ case: body.case, value: { votes: room.votes.length } })
    }
    const id = body.case === 'leave' ? '' : toHex(body.value.messageId)
    const known = room.answers.get(id)
    if (known) return known
    if (view.ended) return refusing({ code: 'removed' })
    const head = BigInt(view.position.slot)
    if (body.case === 'leave') {
      const { notice } = body.value
      if (notice?.slot !== head) return refusing({ code: 'epoch_mismatch', head })
      return answering({ case: body.case, value: { index: BigInt(room.leave(agent, notice)) } })
    }
    if (body.case === 'sendMessage') {
      const last = room.counters.get(agent) ?? 0
      if (Number(body.value.counter) !== last + 1) return refusing({ code: 'out_of_order', lastCounter: BigInt(last) })
    }
    if (body.value.slot !== head) return refusing({ code: 'epoch_mismatch', head })
    const answer =
      body.case === 'sendMessage'
        ? answering({ case: body.case, value: { index: BigInt(room.message(agent, body.value)) } })
        : this.#commit(room, agent, body.value, after)
    room.answers.set(id, answer)
    return answer
  }

  #commit(room: Room, agent: AgentId, request: Asked<'sendCommit'>, after: (() => void)[]): ServerBody {
    for (const delivered of room.commit(agent, request)) {
      const welcome = this.welcome(delivered)
      if (welcome) after.push(() => this.welcomeTo(toHex(delivered.welcome?.agentId ?? new Uint8Array()), welcome))
    }
    const { index, slot } = room.view(agent).position
    return answering({ case: 'sendCommit', value: { index: BigInt(index), head: BigInt(slot) } })
  }

  #pool(agent: AgentId): Uint8Array[] {
    const pool = this.keyPackages.get(agent) ?? []
    this.keyPackages.set(agent, pool)
    return pool
  }

  #wake(): void {
    this.#happened.resolve()
    this.#happened = Promise.withResolvers()
  }
}

/** Something that the relay says. */
export function answering(body: BodyInit): ServerBody {
  return create(ServerMessageSchema, { body }).body as ServerBody
}

/** A refusal. */
export function refusing(error: Partial<Pick<Refusal, 'head' | 'lastCounter'>> & { code: string }): ServerBody {
  return answering({ case: 'error', value: error })
}
