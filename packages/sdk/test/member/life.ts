/**
 * A channel with honest members, warm and restarted, and one malicious one. After each attack a model says what all of
 * them must agree on; at the end the owner removes the attacker.
 */
import assert from 'node:assert/strict'
import { toHex } from '@static/protocol'
import { randomBelow } from '@static/testkit/random'
import { Requiring } from '../../src/admitting/requiring.ts'
import { removeMember } from '../../src/agent/owning.ts'
import { readsOn } from '../mls/attacker.ts'
import { Office, OFFICE } from '../support/office.ts'
import { type Player, Stage } from '../support/stage.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'
import type { Attack, Effect, OpenInvite, Scene } from './attack.ts'
import { Attacker } from './attacker.ts'

/** What all honest members may compute because of one attack, in milliseconds of CPU. Most take a few. */
const MOST_CPU_MS = 10_000
/** What one member may have on disk besides payloads and requests that wait: the group, 1024 hashes, a pending commit. */
const MOST_STORED_BYTES = 512 * 1024
/** Requests of one asker that wait. */
const MOST_REQUESTS = 256
const GONE = 6000
const YEAR_MS = 365 * 86_400_000
const USES = 3

/** What was received at an index: one payload, or those of a pack. */
type Received = Map<number, string[]>

/** One life. */
export class Life {
  readonly stage: Stage
  readonly attacker: Attacker
  readonly invite: OpenInvite
  readonly #office: Office
  readonly #received = new Map<string, Received>()
  #words = 0
  /** Whether the attacker may show a different log without telling a new lie. */
  #hasLied = false
  #cutOff: string | undefined
  /** Who has stopped because it could not follow the owner. */
  readonly #stopped = new Set<string>()

  private constructor(stage: Stage, attacker: Attacker, office: Office) {
    this.stage = stage
    this.attacker = attacker
    this.#office = office
    const keys = inviteKeys(attacker.noise(32))
    const terms = { expiresAt: stage.now + YEAR_MS, maxUses: USES }
    this.invite = { keys, listed: { id: toHex(keys.inviteId), members: keys.members, ...terms } }
  }

  /** A channel of the owner, so many others, and the attacker. */
  static async start(seed: number, others: number): Promise<Life> {
    const below = randomBelow(seed)
    const names = ['owner', ...['bob', 'ida', 'dan'].slice(0, others), 'mal']
    const office = new Office()
    const receipts = below(2) === 0 ? 'off' : 'settled'
    const proofs = office.desk(() => stage.now)
    const players = Object.fromEntries(names.map((name) => [name, { receipts, proofs } as const]))
    const stage: Stage = await Stage.start(names, { seed, apart: ['mal'], receipts, players })
    const life = new Life(stage, new Attacker(stage, 'mal', below), office)
    await life.#prove()
    // Otherwise nobody knows that the epoch is the owner's.
    await life.#rekey(life.owner)
    void life.owner.channel.listedInvites.publish([life.invite.listed])
    await life.#settle()
    return life
  }

  get owner(): Player {
    return this.stage.player('owner')
  }

  /** The members that are not cut off and still in the channel. */
  get #honest(): Player[] {
    return this.stage.players.filter(({ name, channel }) => name !== this.#cutOff && !channel.failure)
  }

  /** All show who they are, and the owner may demand it of them: whatever the attacker shows, none of them goes. */
  async #prove(): Promise<void> {
    const demands = this.#chance.below(2) === 0
    for (const { name, agentId, channel } of this.stage.players) {
      this.#office.employ(agentId, name)
      channel.proving.showing.choose({ show: OFFICE })
      if (demands && name !== this.owner.name) this.owner.channel.proving.demand(agentId, OFFICE)
    }
    await this.stage.advance(1)
    await this.stage.settleWithPrograms()
  }

  /** Something that honest members do. */
  async live(): Promise<void> {
    const { below, pick } = this.#chance
    const player = pick(this.#honest)
    for (const { channel } of this.#honest) channel.proving.tick()
    void new Requiring(this.owner).enforce(this.owner.channel)
    switch (below(7)) {
      case 0:
        await this.#rekey(player)
        break
      case 1:
        player.restart(below(3))
        break
      case 2:
        player.lose(below(3))
        player.resume()
        break
      case 3:
        await this.stage.advance(1000 * below(120))
        break
      case 4:
        this.#ask(player)
        break
      default:
        await this.#say(player)
    }
    await this.#settle()
  }

  /** Lets an attack happen. Returns undefined if it is not possible now. */
  async suffer([name, attack]: Attack): Promise<Effect | undefined> {
    const { stage, attacker, owner } = this
    const others = this.#honest.filter((player) => player !== owner)
    const victim = others.length > 0 ? this.#chance.pick(others) : owner
    // Many attacks are on something that the victim has said.
    if (this.#chance.below(2) === 0) await this.#say(victim)
    await attacker.follow()
    const scene: Scene = { stage, attacker, owner, victim, invite: this.invite, office: this.#office }
    const epoch = this.owner.epoch
    const { slot, index } = stage.position
    const effect = await attack(scene)
    if (!effect) return undefined
    this.#cutOff = effect.cutOff?.name
    // Cold: it hears of the attack when it starts again.
    if (this.#chance.below(3) === 0) this.#chance.pick(this.#honest).restart()
    const before = process.cpuUsage()
    await this.#settle()
    const { user, system } = process.cpuUsage(before)
    assert.ok((user + system) / 1000 < MOST_CPU_MS, `${name} takes too long: ${(user + system) / 1000} ms of CPU`)
    if (effect.divided) await this.#divided()
    this.#check(name, effect, { epoch, slot, index })
    return effect
  }

  /** The owner removes the attacker, the channel goes on, and the attacker reads nothing more. */
  async end(): Promise<void> {
    const { stage, attacker, owner } = this
    await attacker.follow()
    // Agents that have left are removed by anybody.
    if (stage.log.some(({ kind }) => kind === 'leave')) await stage.advance(GONE)
    await this.#settle()
    const removing = owner.channel.group?.members.has(attacker.agentId)
      ? removeMember({ invites: undefined }, owner.channel, attacker.agentId)
      : undefined
    await this.#settle()
    await removing
    assert.equal(owner.channel.group?.members.has(attacker.agentId), false, 'the attacker is still a member')
    const removal = stage.log.findLast(({ kind }) => kind === 'commit')
    for (const player of this.#honest) {
      player.channel.acceptFork()
      await this.#say(player)
    }
    await this.#settle()
    this.#check('removal', {}, undefined)
    this.#checkWords()
    for (const player of stage.players) checkStored(player)
    const last = stage.log.at(-1)
    assert.ok(removal?.kind === 'commit' && last?.kind === 'message')
    const { group, key } = attacker.mls
    assert.equal(
      await readsOn(group, key, removal.request.commit, last.request.ciphertext),
      undefined,
      'the removed attacker reads on',
    )
  }

  get #chance(): Pick<Attacker, 'below' | 'pick'> {
    const { attacker } = this
    return { below: attacker.below, pick: (items) => attacker.pick(items) }
  }

  async #settle(): Promise<void> {
    await this.stage.settle()
    for (const player of this.stage.players) await this.#take(player)
    await this.stage.settle()
  }

  /** Says something, unless it waits for its application to accept a different log. */
  async #say(player: Player): Promise<void> {
    if (player.channel.standing.record.fork !== undefined) return
    const sent = player.send(`${player.name} ${++this.#words}`)
    sent.catch(() => {})
    await this.stage.settle()
    await sent
  }

  async #rekey(player: Player): Promise<void> {
    const rotated = player.channel.upkeep.rekey()
    rotated.catch(() => {})
    await this.stage.settle()
    await this.attacker.follow()
  }

  #ask(player: Player): void {
    const to = this.#chance.pick([undefined, this.attacker.agentId])
    if (player.channel.asks.list().length > 8) return
    player.channel.asks.ask({ payload: Buffer.from('?'), to, lifetimeMs: 60_000, signal: undefined })
  }

  /** Takes all payloads that have come. A restarted program may get the last ones again. */
  async #take(player: Player): Promise<void> {
    const received: Received = this.#received.get(player.name) ?? new Map()
    this.#received.set(player.name, received)
    const reader = player.channel.inbox.read(({ record, payload, redelivered }) => ({
      index: record.index,
      part: record.part,
      words: toHex(payload),
      redelivered,
    }))
    for (;;) {
      const next = reader.next().catch(() => ({ done: true as const, value: undefined }))
      const ended = await Promise.race([next, new Promise<undefined>((resolve) => setImmediate(resolve, undefined))])
      if (!ended || ended.done === true) break
      const { index, part, words, redelivered } = ended.value
      const parts = received.get(index) ?? []
      assert.ok(parts[part] === undefined || redelivered, `${player.name} gets payload ${part} of entry ${index} twice`)
      parts[part] = words
      received.set(index, parts)
    }
    await reader.return?.()
  }

  /** The owner's next messages end a commit that only some could follow. */
  async #divided(): Promise<void> {
    const { owner } = this
    const together = this.#honest.filter(({ view }) => view === owner.view).map(({ name }) => name)
    for (let round = 0; round < 2; round++) await this.#say(owner)
    await this.#settle()
    for (const { name, channel } of this.stage.players) {
      const expected = together.includes(name) ? undefined : 'mls_error'
      assert.equal(channel.failure?.code, expected, `${name} after a commit that only some can read`)
      if (expected !== undefined) this.#stopped.add(name)
    }
  }

  #check(
    name: string,
    { skipped, together, followed, fork, divided, hole, named }: Effect,
    before: { readonly epoch: number; readonly slot: number; readonly index: number } | undefined,
  ): void {
    const { owner, attacker } = this
    for (const player of this.stage.players) {
      if (player.name === this.#cutOff || this.#stopped.has(player.name)) continue
      assert.equal(player.channel.failure, undefined, `${name}: ${player.name} fails`)
      assert.equal(player.view, owner.view, `${name}: ${player.name} and the owner differ`)
      assert.equal(player.channel.owner, owner.agentId, `${name}: ${player.name} takes another agent for the owner`)
      assert.equal(admissionsOf(player), admissionsOf(owner), `${name}: ${player.name} and the owner count differently`)
      this.#checkProofs(name, player)
      assert.deepEqual(player.channel.listedInvites.invites, [this.invite.listed], `${name}: ${player.name}`)
    }
    if (hole && fork === undefined) this.#hasLied = true
    this.#checkForks(name, fork)
    if (fork !== undefined) this.#hasLied = true
    if (!before) return
    if (skipped !== undefined) {
      for (const player of this.#honest) {
        const reason: string | undefined = player
          .told('commit_skipped')
          .find(({ slot }) => slot === before.slot + (named ? 1 : 0))?.reason
        assert.ok(reason !== undefined, `${name}: ${player.name} does not skip it`)
        if (skipped !== true) assert.equal(reason, skipped, `${name}: ${player.name}`)
      }
    }
    const gained = owner.epoch - before.epoch
    const next = followed ?? (gained > 0 ? together : undefined)
    if (!divided) assert.equal(gained, (next ? 1 : 0) + (named ? 1 : 0), `${name}: epochs`)
    if (next) attacker.enter(next)
  }

  /** Whatever the attacker shows, it and its accomplices are nobody, and everybody else is who it is. */
  #checkProofs(name: string, { agentId, name: believer, channel }: Player): void {
    for (const agent of channel.group?.members.keys() ?? []) {
      const verdict = channel.proving.of(agent)
      const wrong = verdict && this.#office.wrongAbout(agent, verdict)
      assert.equal(wrong, undefined, `${name}: ${believer}`)
      const isKnown = verdict?.state === 'checked'
      const isOwn = this.#office.nameOf(agent) !== undefined
      if (agent !== agentId) assert.equal(isKnown, isOwn, `${name}: ${believer} of ${agent}`)
    }
  }

  /** All report the same fork, and only one that there is. Most applications go on at once. */
  #checkForks(name: string, fork: string | undefined): void {
    const forks = this.#honest.map(({ channel }) => channel.standing.record.fork)
    if (fork !== undefined && !this.#hasLied)
      for (const found of forks) assert.equal(found, fork, `${name}: a different log is not noticed`)
    for (const found of forks) {
      const isTold = found === undefined || found === fork || (this.#hasLied && found === this.attacker.agentId)
      assert.ok(isTold, `${name}: a different log of ${found} that there is not`)
    }
    if (this.#chance.below(3) > 0 || fork !== this.attacker.agentId)
      for (const { channel } of this.#honest) channel.acceptFork()
  }

  /** Everybody has received the same, and all that honest members have sent, once. */
  #checkWords(): void {
    const { players, log } = this.stage
    const honest = this.#honest
    for (const [at, entry] of log.entries()) {
      const index = at + 1
      if (entry.kind !== 'message') continue
      const hearers = honest.filter(({ agentId }) => agentId !== entry.sender)
      const found = new Set(hearers.map(({ name }) => this.#received.get(name)?.get(index)?.join()))
      assert.ok(found.size <= 1, `entry ${index} is not the same for all`)
    }
    for (const { name } of honest) {
      const received = [...(this.#received.get(name)?.values() ?? [])].flat()
      const words = received.map((hex) => Buffer.from(hex, 'hex').toString())
      const own = players.map((player) => player.name)
      const said = words.filter((text) => own.includes(text.split(' ')[0] ?? '') && /^\w+ \d+$/.test(text))
      assert.equal(new Set(said).size, said.length, `${name} gets words twice: ${said.join(', ')}`)
      for (const other of honest) {
        if (other.name !== name)
          assert.ok(said.includes(this.#lastOf(other)), `${name} misses the last words of ${other.name}`)
      }
    }
  }

  #lastOf({ name }: Player): string {
    const at = this.#honest.findIndex((player) => player.name === name)
    return `${name} ${this.#words - this.#honest.length + 1 + at}`
  }
}

/** Who came by which invites, as a member counts. */
function admissionsOf({ channel: { listedInvites } }: Player): string {
  const uses = [...listedInvites.uses].map(({ agent, slot, invite, beyond }) => `${agent} ${slot} ${invite} ${beyond}`)
  const counts = listedInvites.invites.map(({ id }) => `${id} ${listedInvites.count(id)}`)
  return [...counts, ...uses.sort()].join('\n')
}

/** What a member has on disk is bounded. */
function checkStored({ name, store }: Player): void {
  const { channels } = store.load()
  for (const { requests: _, inbox, answers, ...rest } of channels) {
    const requests = Object.groupBy(store.requests(rest.record.id, 0, 10_000), ({ sender }) => sender)
    for (const { length } of Object.values(requests).map((list = []) => list))
      assert.ok(length <= MOST_REQUESTS, `${name} holds ${length} requests of one member`)
    assert.ok(answers.messages <= MOST_REQUESTS, `${name} holds ${answers.messages} answers`)
    const bytes = sizeOf(rest)
    assert.ok(bytes <= MOST_STORED_BYTES, `${name} stores ${bytes} bytes, and ${inbox.bytes} of payloads`)
  }
}

function sizeOf(value: unknown): number {
  if (value instanceof Uint8Array) return value.length
  if (typeof value === 'string') return value.length
  if (value instanceof Map) return sizeOf([...value])
  if (typeof value !== 'object' || value === null) return 8
  return Object.values(value).reduce((sum: number, item) => sum + sizeOf(item), 0)
}
