/**
 * A malicious member of a simulated world: it holds the group's keys and says to the real relay what no agent would say.
 * Its attacks are those of `../member`, whose stage is played by the relay's own log here. In some worlds the relay helps:
 * it logs what it should refuse.
 */
import assert from 'node:assert/strict'
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import type { ClientState } from 'ts-mls'
import { chainStart, fromHex, toHex } from '@static/protocol'
import {
  DeclarationSchema,
  LeaveNoticeSchema,
  LeaveRequestSchema,
  RejectCommitRequestSchema,
  SendCommitRequestSchema,
  SendMessageRequestSchema,
} from '@static/protocol/relay'
import type { World } from '@static/testkit/world'
import type { Machine } from '@static/testkit/world/machine'
import { RELAY } from '@static/testkit/world/relay'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { adopt } from '../../src/mls/ts-mls/state.ts'
import type { RelaySession, RequestBody } from '../../src/ports/index.ts'
import { FORMS } from '../../src/session/io.ts'
import { Attacker } from '../member/attacker.ts'
import type { Attack, Effect, Scene } from '../member/attack.ts'
import { COMMITS } from '../member/commits.ts'
import { LEAVES } from '../member/leaves.ts'
import { MESSAGES } from '../member/messages.ts'
import { crypto, readsOn } from '../mls/attacker.ts'
import { Agent as MlsAgent, engine } from '../mls/support.ts'
import { agentParts } from '../support/agent-parts.ts'
import type { Stage } from '../support/stage.ts'
import { type Cast, NAME } from './cast.ts'
import type { Person } from './person.ts'

const MAL = 'mal'
/** Floods are for the member's own proof. */
const ATTACKS: readonly Attack[] = [...COMMITS, ...MESSAGES, ...LEAVES].filter(
  ([name]) => !/flood|relay’s help|largest payload/.test(name),
)
/** What a relay must refuse. */
const FOR_RELAYS = COMMITS.filter(([name]) => /removes another|is removed|a notice/.test(name))
/** What only a relay that helps takes. */
const WITH_HELP = [...FOR_RELAYS, ...MESSAGES.filter(([name]) => name.includes('relay’s help'))]
/** What members must refuse themselves when a relay has taken it. */
const REMOVALS = COMMITS.filter(([name]) => name === 'a member removes another')
const HELPERS = 0.4
const SOON_MS = 20
/** How many of the last commits it votes against. */
const VOTES = 3

type StageEntry = Stage['log'][number]
type LogEntry = ReturnType<Cast['relay']['disk']['log']>[number]

/** The traitor of one world. */
export class Traitor {
  readonly agentId: string
  /** The relay logs what it should refuse. */
  readonly hasHelp: boolean
  /** It has made commits that only some can read. */
  hasDivided = false
  /** In whose names it has said something. */
  readonly framed: Set<string> = new Set()
  readonly #world: World
  readonly #cast: Cast
  readonly #mls = new MlsAgent(MAL)
  readonly #machine: Machine
  readonly #session: RelaySession
  #attacker: Attacker | undefined
  /** Epochs that its own commits would begin. */
  #next: ClientState[] = []

  constructor(world: World, cast: Cast) {
    this.#world = world
    this.#cast = cast
    this.agentId = toHex(this.#mls.agentId)
    this.hasHelp = world.random() < HELPERS
    if (this.hasHelp) world.tell('the relay helps mal')
    const machine = world.machine(MAL)
    this.#machine = machine
    const transport = cast.network.transport(machine, FORMS.quic)
    const parts = agentParts({
      store: cast.owner.disk.open(machine),
      endpoint: { way: 'quic', addresses: [{ host: RELAY, port: 1 }], serverName: RELAY, url: '' },
      ca: undefined,
      transports: { quic: transport, grpc: transport },
      jwt: () => 'acme',
      now: () => world.now,
      wait: true,
    })
    let session: RelaySession | undefined
    const listener = { opened: () => {}, push: () => {}, lost: () => {}, pin: () => {} }
    machine.do(() => {
      const opened = parts.connect(listener, this.#mls.key, new Map())
      opened.ready.catch(() => {})
      session = opened.session
    })
    this.#session = session ?? assert.fail('no session')
  }

  /** Whether it is in the group, as the owner sees it. */
  get isIn(): boolean {
    const members = this.#cast.owner.channel(NAME)?.members() ?? []
    return members.some(({ agentId }) => agentId === this.agentId)
  }

  /** The owner adds it. */
  join(): void {
    this.#cast.do('owner adds mal', this.#cast.owner, async ({ client }) => {
      const own = await this.#mls.keyPackage(this.#world.now)
      const welcome = await client.channel(NAME).addMember(own.keyPackage)
      await this.#mls.join(welcome, own)
      this.#next = []
      this.#attacker = new Attacker(this.#stage(), MAL, (limit) => this.#world.below(limit))
      this.#cast.count('betrayed')
    })
  }

  /** Attacks in one of many ways, if it can. */
  attack(): void {
    const attacker = this.#attacker
    const roll = this.#world.random()
    if (roll < 0.15) return this.#vote()
    const chosen = this.#world.pick(this.#attacks(roll))
    const { owner } = this.#cast
    if (!attacker || !chosen || !this.isIn) return
    const [name, attack] = chosen
    const stage = this.#stage()
    const victim = this.#world.pick(stage.players.filter((player) => player.name !== owner.name))
    const self = stage.players.find((player) => player.name === owner.name)
    if (!self) return
    this.#world.tell(`mal: ${name}`)
    Object.assign(attacker, { stage, counter: this.#counter })
    const keys = inviteKeys(attacker.noise(32))
    const terms = { expiresAt: this.#world.now + 1_000_000, maxUses: 3 }
    const invite = { keys, listed: { id: toHex(keys.inviteId), members: keys.members, ...terms } }
    const scene: Scene = { stage, attacker, owner: self, victim: victim ?? self, invite }
    this.#machine.do(() => {
      // It is behind, or ahead of the others: what the attack needs is not in its group.
      const failed = (error: unknown): void => this.#world.note(`mal cannot: ${name}: ${String(error)}`)
      this.#act(name, attacker, async () => await attack(scene)).catch(failed)
    })
  }

  #attacks(roll: number): readonly Attack[] {
    if (roll > 0.5) return ATTACKS
    if (!this.hasHelp) return FOR_RELAYS
    return roll < 0.3 ? REMOVALS : WITH_HELP
  }

  /** Words that were said after it was removed, if it can read them. */
  async read(): Promise<string | undefined> {
    const attacker = this.#attacker
    const log = this.#log
    const at = log.findLastIndex(
      (entry) => entry.kind === 'commit' && entry.declaration.removes.some((agent) => toHex(agent) === this.agentId),
    )
    const removal = log[at]
    const message = log.slice(at).find((entry) => entry.kind === 'message' && !entry.control)
    if (!attacker || removal?.kind !== 'commit' || message?.kind !== 'message') return undefined
    try {
      this.#enter()
      Object.assign(attacker, { stage: Object.assign(this.#stage(), { log: log.slice(0, at).map(stageEntry) }) })
      await attacker.follow()
    } catch {
      // It was behind.
      return undefined
    }
    this.#cast.count('read on')
    return await readsOn(this.#mls.group, this.#mls.key, removal.commit, message.ciphertext)
  }

  /** Against one of the last commits of others. */
  #vote(): void {
    const commits = this.#log.filter((entry) => entry.kind === 'commit' && entry.sender !== this.agentId)
    const chosen = this.#world.pick(commits.slice(-VOTES))
    if (!chosen || !this.isIn) return
    this.#world.tell(`mal votes against ${chosen.slot}`)
    this.#cast.count('votes')
    const value = create(RejectCommitRequestSchema, { channelId: this.#channelId, slot: BigInt(chosen.slot) })
    this.#machine.do(() => this.#session.request({ case: 'rejectCommit', value }, () => {}))
  }

  get #channelId(): Uint8Array {
    return fromHex(this.#cast.owner.recordOf(NAME)?.id ?? '')
  }

  async #act(name: string, attacker: Attacker, attack: () => Promise<Effect | undefined>): Promise<void> {
    this.#enter()
    await attacker.follow()
    const effect = await attack()
    if (!effect) return
    this.#cast.count('attacks')
    if (effect.divided) this.hasDivided = true
    if (effect.cutOff) this.framed.add(effect.cutOff.agentId)
    const next = effect.followed ?? effect.together
    if (next) this.#next.push(next)
    this.#world.note(`mal has done: ${name}`)
  }

  /** Goes on where its own commit was followed. */
  #enter(): void {
    const { manager } = this.#cast.owner
    const authenticator = manager?.client.membershipOf(NAME as never).group?.facts.epochAuthenticator
    for (const state of this.#next) {
      const epoch = adopt(crypto, state, this.#mls.key)
      if (authenticator && toHex(engine.facts(epoch.group).epochAuthenticator) === toHex(authenticator)) {
        this.#mls.enter(epoch)
        this.#next = []
        return
      }
    }
  }

  /** Of its last message that the relay has. */
  get #counter(): number {
    const own = this.#log.findLast((entry) => entry.kind === 'message' && entry.sender === this.agentId)
    return own?.kind === 'message' ? own.counter : 0
  }

  get #log(): readonly LogEntry[] {
    const { owner, relay } = this.#cast
    return relay.disk.log(owner.recordOf(NAME)?.id ?? '')
  }

  /** What attacks act on. */
  #stage(): Stage {
    const channelId = this.#channelId
    const log = this.#log
    const start = { index: 0, hash: chainStart(sha256, channelId), slot: 0 }
    const positions = [start, ...log.map(positionOf)]
    const stage = {
      channelId,
      log: log.map(stageEntry),
      positions,
      position: positions.at(-1) ?? start,
      now: this.#world.now,
      receipts: new Map(),
      apart: new Map([[MAL, this.#mls]]),
      players: this.#cast.people.flatMap(playerOf),
      append: (entry: StageEntry) => {
        if (!this.#force(channelId, entry)) this.#session.request(this.#requestOf(channelId, entry), () => {})
        // The next of one attack follows it.
        if (entry.kind === 'commit') stage.position = { ...stage.position, slot: stage.position.slot + 1 }
      },
    }
    return stage as unknown as Stage
  }

  /** Has the relay log what it should refuse. Returns whether it does. */
  #force(channelId: Uint8Array, { sender, slot, ...entry }: StageEntry): boolean {
    if (!this.hasHelp) return false
    const { disk } = this.#cast.relay
    const place = { sender, slot, at: this.#world.now }
    if (entry.kind === 'message' && sender !== this.agentId) {
      const { messageId, ciphertext } = entry.request
      const last = this.#log.findLast((one) => one.kind === 'message' && one.sender === sender)
      const counter = last?.kind === 'message' ? last.counter + 1 : 1
      disk.force(toHex(channelId), { ...place, kind: 'message', messageId, counter, control: false, ciphertext })
      return true
    }
    if (entry.kind !== 'commit' || !entry.request.declaration?.removes.length) return false
    const { messageId, commit, declaration } = entry.request
    disk.force(toHex(channelId), { ...place, kind: 'commit', messageId, commit, declaration })
    // It goes on telling them of the channel.
    const removed = declaration.removes.map((agent) => toHex(agent))
    this.#world.plan(SOON_MS, {}, this.#machine, () => {
      for (const { agentId, machine } of this.#cast.people)
        if (removed.includes(agentId)) this.#cast.network.cut(machine)
    })
    return true
  }

  #requestOf(channelId: Uint8Array, entry: StageEntry): RequestBody {
    const slot = BigInt(entry.slot)
    switch (entry.kind) {
      case 'message':
        return { case: 'sendMessage', value: create(SendMessageRequestSchema, { ...entry.request, channelId, slot }) }
      case 'commit':
        return { case: 'sendCommit', value: create(SendCommitRequestSchema, { ...entry.request, channelId, slot }) }
      case 'leave':
        return { case: 'leave', value: create(LeaveRequestSchema, { channelId, notice: entry.notice }) }
    }
  }
}

function positionOf(entry: LogEntry): { index: number; hash: Uint8Array; slot: number } {
  const { index, hash, slot, kind } = entry
  return { index, hash, slot: kind === 'commit' ? slot + 1 : slot }
}

function stageEntry(entry: LogEntry): StageEntry {
  const { sender, slot } = entry
  switch (entry.kind) {
    case 'message': {
      const { messageId, counter, control, ciphertext } = entry
      const request = create(SendMessageRequestSchema, { messageId, counter: BigInt(counter), control, ciphertext })
      return { kind: 'message', sender, slot, request }
    }
    case 'commit': {
      const { messageId, commit } = entry
      const { adds, removes, leaveNotices, vouches, owner, standby, signature } = entry.declaration
      const notices = leaveNotices.map((notice) =>
        create(LeaveNoticeSchema, { ...notice, leafKeys: [...notice.leafKeys] }),
      )
      const declaration = create(DeclarationSchema, {
        adds: [...adds],
        removes: [...removes],
        leaveNotices: notices,
        vouches: [...vouches],
        owner: owner ?? new Uint8Array(),
        standby: standby ?? new Uint8Array(),
        signature,
      })
      return {
        kind: 'commit',
        sender,
        slot,
        request: create(SendCommitRequestSchema, { messageId, commit, declaration }),
      }
    }
    case 'leave': {
      const notice = create(LeaveNoticeSchema, { ...entry.notice, leafKeys: [...entry.notice.leafKeys] })
      return { kind: 'leave', sender, slot, notice }
    }
  }
}

/** A person, as attacks see it: who runs and is a member. */
function playerOf(person: Person): Stage['players'] {
  const { name, agentId, disk, manager } = person
  if (!manager || !person.channel(NAME)) return []
  const { publicKey, secretKey, identity } = disk.contents.identity
  const channel = manager.client.membershipOf(NAME as never)
  const key = { publicKey, seed: secretKey }
  return [{ name, agentId, key, identity, channel } as unknown as Stage['players'][number]]
}
