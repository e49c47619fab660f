/**
 * AgentChannels of one channel and a relay that is a list: no sockets, a clock that stands still, and an order of events
 * that a seed decides. The relay keeps the contract; a test may put words of its own into its mouth.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { sha256 } from '#platform/crypto'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import {
  chainNext,
  chainStart,
  commitBody,
  leaveBody,
  leaveBytes,
  type ReceiptMode,
  StaticError,
  toHex,
} from '@static/protocol'
import {
  ChannelStateSchema,
  DeliverCommitSchema,
  DeliverLeaveSchema,
  DeliverMessageSchema,
  ErrorSchema,
  type LeaveNotice,
  ReceiptBatchSchema,
  ReceiptDemand,
  ResumeRequestSchema,
  type SendCommitRequest,
  type SendMessageRequest,
  SendMessageResponseSchema,
} from '@static/protocol/relay'
import type { AgentEvent } from '../../src/agent/events.ts'
import type { ResumeQuestion } from '../../src/agent/deliveries.ts'
import { newChannel } from '../../src/agent/founding.ts'
import { Journal } from '../../src/channel/journal.ts'
import type { Intake } from '../../src/channel/receiving/intake.ts'
import type { SentMessage } from '../../src/channel/sending/outbox.ts'
import type { SendLimits } from '../../src/channel/sending/send-wait.ts'
import type { LogEntry } from '../../src/channel/log/log-entry.ts'
import type { KeptMessages } from '../../src/channel/keeping/kept-messages.ts'
import { type HistoryOption, Keeping } from '../../src/channel/keeping/keeping.ts'
import { AgentChannel } from '../../src/channel/channel.ts'
import { Pins } from '../../src/agent/pins.ts'
import type { AgentContext } from '../../src/agent/context.ts'
import type { InviteSeal } from '../../src/mls/sealed-welcome.ts'
import { agentIdOf, ed25519, type Joined, type MlsEngine, type SignatureKeyPair } from '../../src/mls/index.ts'
import type {
  AgentId,
  AgentStore,
  Outcome,
  PositionRecord,
  RelaySession,
  RequestBody,
  Time,
} from '../../src/ports/index.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { randomNumbers } from '@static/testkit/random'
import { Agent as MlsAgent, channelOf, engine, NAME } from '../mls/support.ts'

/** A refusal of the relay: a code and what goes with it. */
export type Refusal = MessageInitShape<typeof ErrorSchema> & { readonly code: string }

type Entry =
  | { readonly kind: 'message'; readonly sender: AgentId; readonly slot: number; readonly request: SendMessageRequest }
  | { readonly kind: 'commit'; readonly sender: AgentId; readonly slot: number; readonly request: SendCommitRequest }
  | { readonly kind: 'leave'; readonly sender: AgentId; readonly slot: number; readonly notice: LeaveNotice }

/** How a player differs from an ordinary one. */
export interface PlayerOptions {
  readonly chance?: () => number
  /** Its timers fire so much before their time, as those of Node do by a millisecond. */
  readonly early?: number
  /** What its receipts tell. Default: nothing, so that it sends heartbeats. */
  readonly receipts?: ReceiptMode
  readonly proofs?: AgentContext['proofs']
  /** Whether it keeps a history. */
  readonly history?: HistoryOption
}

/** How a stage differs from an ordinary one. */
export interface StageOptions {
  readonly seed?: number
  readonly players?: Readonly<Record<string, PlayerOptions>>
  readonly apart?: readonly string[]
  /** What everybody's receipts tell who is not among the players. */
  readonly receipts?: ReceiptMode
}

/** The library looks at the real clock when it adds a KeyPackage. */
const START = Date.now()

/** The channel's relay, and everybody's clock. */
export class Stage {
  now: Time = START
  readonly players: Player[] = []
  readonly apart: Map<string, MlsAgent> = new Map()
  readonly channelId: Uint8Array
  readonly owner: AgentId
  readonly log: Entry[] = []
  /** By index; the first is before the log. */
  readonly positions: PositionRecord[]
  /** Who has voted against which slot. */
  readonly votes: string[] = []
  /** Whose bars were lifted, and by whom. */
  readonly lifted: string[] = []
  /** What the relay refuses although it should not. */
  refuse: (player: Player, body: RequestBody) => Refusal | undefined = () => undefined
  /** What the relay adds to its answers when a channel fills up. */
  pressing: (player: Player) => MessageInitShape<typeof SendMessageResponseSchema> = () => ({})
  /** The last receipt of each agent. */
  readonly receipts: Map<AgentId, Uint8Array> = new Map()
  readonly #random: () => number
  readonly #roster = new Map<AgentId, { since: number; until: number; counter: number }>()
  readonly #answers = new Map<string, Outcome>()

  private constructor(channelId: Uint8Array, owner: AgentId, seed: number) {
    this.channelId = channelId
    this.owner = owner
    this.#random = randomNumbers(seed)
    this.positions = [{ index: 0, hash: chainStart(sha256, channelId), slot: 0 }]
  }

  /** A channel of these agents, of which the first owns it. Those apart are members whom the test plays itself. */
  static async start(
    names: readonly string[],
    { seed = 1, players = {}, apart = [], receipts = 'off' }: StageOptions = {},
  ): Promise<Stage> {
    const { channelId, agents } = await channelOf(...names)
    const stage = new Stage(channelId, toHex(agents[0]?.agentId ?? new Uint8Array()), seed)
    for (const [at, agent] of agents.entries()) {
      const name = names[at] ?? ''
      stage.#enrol(toHex(agent.agentId))
      if (apart.includes(name)) stage.apart.set(name, agent)
      // As if the last one had added all: no one knows that the epoch is the owner's.
      else {
        const signer = engine.facts(agent.group).members.at(-1) ?? assert.fail()
        new Player(stage, agent, { receipts, ...players[name] }).enter({
          group: agent.group,
          rows: [...agent.rows.values()],
          signer,
        })
      }
    }
    await stage.settle()
    return stage
  }

  /** The last entry. */
  get position(): PositionRecord {
    return this.positions.at(-1) ?? assert.fail()
  }

  player(name: string): Player {
    return this.players.find((player) => player.name === name) ?? assert.fail(`no ${name}`)
  }

  /** Lets everything happen that can, one thing after the other, until nothing is left. */
  async settle(): Promise<void> {
    await this.settleOnly(...this.players)
  }

  /** Also what programs do when a promise of theirs resolves, and what follows from it, a few times over. */
  async settleWithPrograms(): Promise<void> {
    for (let round = 0; round < 8; round++) {
      await this.settle()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** The same for some: the others hear nothing yet, and what they ask has not arrived. */
  async settleOnly(...players: readonly Player[]): Promise<void> {
    for (;;) {
      for (const { channel } of players) await channel.idle()
      for (const { journal } of players) journal.flush()
      const able = players.filter(
        (player) => player.requests.length > 0 || player.hasMail || this.#delivery(player) !== undefined,
      )
      const player = able[Math.floor(this.#random() * able.length)]
      if (!player) return
      if (player.hasMail && this.#random() < 0.5) {
        player.give()
        continue
      }
      const delivery = this.#delivery(player)
      const request = player.requests[0]
      if (delivery && (!request || this.#random() < 0.5)) {
        player.delivered++
        if (player.hearing(delivery) !== 'lost') player.channel.intake.deliver(delivery)
      } else if (request) {
        player.requests.shift()
        request.done(this.handle(player, request.body))
      }
    }
  }

  /** Time passes, in steps in which nothing is missed. */
  async advance(milliseconds: number, step = 5000): Promise<void> {
    const until = this.now + milliseconds
    while (this.now < until) {
      this.now = Math.min(until, this.now + step)
      for (const player of this.players) player.awake()
      await this.settle()
    }
  }

  /** An entry of the relay's own making, as whoever gets it is told. */
  append(entry: Entry): void {
    const { index, hash, slot } = this.position
    this.log.push(entry)
    const { sender } = entry
    const messageId = entry.kind === 'leave' ? new Uint8Array() : entry.request.messageId
    this.positions.push({
      index: index + 1,
      hash: chainNext(sha256, hash, {
        kind: entry.kind,
        sender: Buffer.from(sender, 'hex'),
        messageId,
        bodyHash: sha256(bodyOf(entry)),
      }),
      slot: slot + (entry.kind === 'commit' ? 1 : 0),
    })
  }

  /** An agent leaves by its signed notice. */
  leave(
    { agentId, key }: { readonly agentId: AgentId; readonly key: SignatureKeyPair },
    leafKeys: readonly Uint8Array[] = this.players.find((player) => player.agentId === agentId)?.channel.standing.record
      .leafKeys ?? [],
  ): void {
    const slot = BigInt(this.position.slot)
    const notice: LeaveNotice = {
      $typeName: 'static.relay.v1.LeaveNotice',
      publicKey: key.publicKey,
      slot,
      leafKeys: [...leafKeys],
      signature: ed25519.signer(key)(leaveBytes(this.channelId, { slot, leafKeys })),
    }
    this.append({ kind: 'leave', sender: agentId, slot: this.position.slot, notice })
    this.#strike(agentId)
  }

  /** Where a player stands. */
  stateOf(player: Player): Parameters<Intake['answered']>[0] {
    const place = this.#roster.get(player.agentId)
    const cursor = this.positions[Math.max(player.cursor, place?.since ?? 0)]
    return create(ChannelStateSchema, {
      channelId: this.channelId,
      name: NAME,
      owner: Buffer.from(this.owner, 'hex'),
      head: BigInt(this.position.slot),
      lastIndex: BigInt(this.position.index),
      lastCounter: BigInt(place?.counter ?? 0),
      addedIndex: BigInt(place?.since ?? 0),
      cursor: cursor && { index: BigInt(cursor.index), hash: cursor.hash, slot: BigInt(cursor.slot) },
    })
  }

  #delivery(player: Player): LogEntry | undefined {
    const place = this.#roster.get(player.agentId)
    const entry = this.log[player.delivered]
    if (!player.online || !place || !entry || player.delivered + 1 > place.until) return undefined
    return this.#push(entry, player.delivered + 1, entry.sender === player.agentId)
  }

  #push(entry: Entry, index: number, own: boolean): LogEntry {
    const { channelId } = this
    const place = { channelId, index: BigInt(index), sender: Buffer.from(entry.sender, 'hex') }
    switch (entry.kind) {
      case 'message': {
        const { messageId, counter, control, ciphertext } = entry.request
        const value = {
          ...place,
          slot: BigInt(entry.slot),
          messageId,
          counter,
          control,
          acceptedAtMs: BigInt(this.now),
        }
        const body = own ? new Uint8Array() : Uint8Array.from(ciphertext)
        return { case: 'deliverMessage', value: create(DeliverMessageSchema, { ...value, ciphertext: body }) }
      }
      case 'commit': {
        const { messageId, commit, declaration } = entry.request
        const body = own || !declaration ? {} : { commit, declaration }
        const value = { ...place, slot: BigInt(entry.slot), messageId, ...body }
        return { case: 'deliverCommit', value: create(DeliverCommitSchema, value) }
      }
      case 'leave':
        return { case: 'deliverLeave', value: create(DeliverLeaveSchema, { ...place, notice: entry.notice }) }
    }
  }

  /** What the relay does with a request. */
  handle(player: Player, body: RequestBody): Outcome {
    // What was taken before is answered as then, whatever has happened since.
    const id = body.case === 'sendMessage' || body.case === 'sendCommit' ? toHex(body.value.messageId) : ''
    const known = this.#answers.get(id)
    if (known) return known
    const wanted = this.refuse(player, body)
    const outcome = wanted ? refused(wanted) : this.#judge(player, body)
    if (id !== '' && outcome.type === 'answered') this.#answers.set(id, outcome)
    return outcome
  }

  #judge(player: Player, body: RequestBody): Outcome {
    switch (body.case) {
      case 'sendMessage':
        return this.#message(player, body.value)
      case 'sendCommit':
        return this.#commit(player, body.value)
      case 'rejectCommit':
        this.votes.push(`${player.name} ${body.value.slot}`)
        return answered('rejectCommit')
      case 'liftBar':
        this.lifted.push(`${player.name} ${toHex(body.value.agentId)}`)
        return answered('liftBar')
      case 'resume':
        player.delivered = Math.max(player.cursor, this.#roster.get(player.agentId)?.since ?? 0)
        player.online = true
        player.demand = body.value.receipts
        player.mail = new Map(this.receipts)
        return answered('resume')
      default:
        return refused({ code: 'invalid_request' })
    }
  }

  #message(player: Player, request: SendMessageRequest): Outcome {
    const place = this.#roster.get(player.agentId)
    if (!place || place.until < Infinity) return refused({ code: 'removed' })
    if (Number(request.counter) !== place.counter + 1) {
      return refused({ code: 'out_of_order', lastCounter: BigInt(place.counter) })
    }
    const { slot } = this.position
    if (Number(request.slot) !== slot) return refused({ code: 'epoch_mismatch', head: BigInt(slot) })
    place.counter++
    this.append({ kind: 'message', sender: player.agentId, slot, request })
    const value = create(SendMessageResponseSchema, { index: BigInt(this.position.index), ...this.pressing(player) })
    return { type: 'answered', body: { case: 'sendMessage', value } }
  }

  #commit(player: Player, request: SendCommitRequest): Outcome {
    const { slot } = this.position
    if (Number(request.slot) !== slot) return refused({ code: 'epoch_mismatch', head: BigInt(slot), retryAfterMs: 1 })
    this.append({ kind: 'commit', sender: player.agentId, slot, request })
    for (const agent of request.declaration?.removes ?? []) this.#strike(toHex(agent))
    for (const agent of request.declaration?.adds ?? []) this.#enrol(toHex(agent))
    return answered('sendCommit')
  }

  #enrol(agent: AgentId): void {
    this.#roster.set(agent, { since: this.position.index, until: Infinity, counter: 0 })
  }

  #strike(agent: AgentId): void {
    const place = this.#roster.get(agent)
    if (place) place.until = this.position.index
  }
}

/** One agent in the channel. */
export class Player implements AgentContext {
  readonly stage: Stage
  readonly name: string
  readonly engine: MlsEngine = engine
  readonly key: SignatureKeyPair
  readonly identity: Uint8Array
  readonly agentId: AgentId
  readonly sign: (bytes: Uint8Array) => Uint8Array
  readonly journal: Journal
  readonly pins: Pins
  readonly keeping: Keeping
  readonly proofs: AgentContext['proofs']
  readonly files: AgentContext['files'] = undefined
  readonly store: AgentStore
  readonly events: AgentEvent[] = []
  readonly requests: { readonly body: RequestBody; readonly done: (outcome: Outcome) => void }[] = []
  readonly channel: AgentChannel
  online = false
  /** Its clock is ahead by this. */
  skew = 0
  /** Which receipts it asked for, and those that it has yet to get. */
  demand: ReceiptDemand = ReceiptDemand.UNSPECIFIED
  mail: Map<AgentId, Uint8Array> = new Map()
  /** The last index that was delivered, and that was acknowledged. */
  delivered = 0
  cursor = 0
  /** Called before an entry is delivered, which may get lost. */
  hearing: (entry: LogEntry) => 'lost' | undefined = () => undefined
  readonly receipts: ReceiptMode
  readonly #agent: MlsAgent
  readonly #options: PlayerOptions
  #isOver = false
  #timers: { readonly at: Time; readonly action: () => void }[] = []

  constructor(stage: Stage, agent: MlsAgent, options: PlayerOptions = {}, before?: Player) {
    this.stage = stage
    this.#agent = agent
    this.#options = options
    this.receipts = options.receipts ?? 'off'
    this.proofs = options.proofs
    this.key = agent.key
    this.identity = agent.identity
    this.name = Buffer.from(agent.identity).toString()
    this.agentId = toHex(agentIdOf(agent.key.publicKey))
    this.sign = ed25519.signer(agent.key)
    const { publicKey, seed } = agent.key
    this.store = before?.store ?? makeMemoryStore({ identity: agent.identity, publicKey, secretKey: seed })
    this.cursor = before?.cursor ?? 0
    this.skew = before?.skew ?? 0
    const write: AgentStore['write'] = (changes) => {
      if (!this.#isOver) this.store.write(changes)
    }
    const inbox: AgentStore['inbox'] = (id, after, limit) => this.store.inbox(id, after, limit)
    const poison: AgentStore['poison'] = (id) => this.store.poison(id)
    const requests: AgentStore['requests'] = (id, after, limit) => this.store.requests(id, after, limit)
    const answers: AgentStore['answers'] = (id) => this.store.answers(id)
    const fileDigests: AgentStore['fileDigests'] = (id, index) => this.store.fileDigests(id, index)
    const uploadParts: AgentStore['uploadParts'] = (id, fileId) => this.store.uploadParts(id, fileId)
    const kept: AgentStore['kept'] = (id, before, limit) => this.store.kept(id, before, limit)
    const keptSizes: AgentStore['keptSizes'] = (id, before, limit) => this.store.keptSizes(id, before, limit)
    const checkpoint = (): void => this.store.checkpoint()
    const onFailure = (): void => {}
    const store = { write, inbox, poison, requests, answers, fileDigests, uploadParts, kept, keptSizes, checkpoint }
    this.journal = new Journal({ ...store, onFailure } as unknown as AgentStore, (error) => assert.fail(error))
    const { channels, pins, keepingDays } = this.store.load()
    this.pins = new Pins(pins, this.journal)
    const { journal, identity } = this
    const all = (): Iterable<KeptMessages> => [this.channel.kept]
    this.keeping = new Keeping({ journal, identity, now: () => this.now(), all }, keepingDays, options.history)
    const stored = channels[0] ?? newChannel(toHex(stage.channelId), NAME, stage.owner, 'offered', stage.position)
    this.channel = new AgentChannel(this, stored, () => {})
    if (before) stage.players.splice(stage.players.indexOf(before), 1, this)
    else stage.players.push(this)
  }

  readonly session: RelaySession = {
    request: (body, done) => {
      if (!this.#isOver) this.requests.push({ body, done })
    },
    ack: () => {},
    hold: () => {},
    release: () => {},
    close: () => Promise.resolve(),
  }

  /** Is in the channel from here on. */
  enter(joined: Joined): void {
    const { cursor } = this.stage.stateOf(this)
    const position = this.stage.positions[Number(cursor?.index ?? 0n)] ?? assert.fail()
    this.cursor = position.index
    this.channel.enter(joined, 'joined', position, new Uint8Array(32))
    this.resume()
  }

  /** The session is lost, and with it what was under way; so many requests have arrived before. */
  lose(arrived = 0): void {
    this.#cut(arrived)
    for (const { done } of this.requests.splice(0)) done({ type: 'lost', error: StaticError.of('connection_error') })
    this.channel.lose()
  }

  /** The program is killed, and starts again with what it had written. */
  restart(arrived = 0, options: PlayerOptions = this.#options): Player {
    this.#cut(arrived)
    this.#isOver = true
    this.#timers = []
    this.requests.length = 0
    const again = new Player(this.stage, this.#agent, options, this)
    again.resume()
    return again
  }

  /** What is due is done. */
  awake(): void {
    const due = this.#timers.filter(({ at }) => at <= this.stage.now)
    this.#timers = this.#timers.filter(({ at }) => at > this.stage.now)
    for (const { action } of due) action()
    this.channel.upkeep.tick(this.now())
  }

  now(): Time {
    return this.stage.now + this.skew
  }

  random(bytes: number): Uint8Array {
    return new Uint8Array(randomBytes(bytes))
  }

  chance(): number {
    return this.#options.chance?.() ?? 0.5
  }

  later(milliseconds: number, action: () => void): () => void {
    const timer = { at: this.stage.now + milliseconds - (this.#options.early ?? 0), action }
    this.#timers.push(timer)
    return () => (this.#timers = this.#timers.filter((other) => other !== timer))
  }

  emit(event: AgentEvent): void {
    this.events.push(event)
  }

  /** The events of a kind so far. */
  told<Type extends AgentEvent['type']>(type: Type): Extract<AgentEvent, { type: Type }>[] {
    return this.events.filter((event): event is Extract<AgentEvent, { type: Type }> => event.type === type)
  }

  readonly deliveries: AgentContext['deliveries'] = {
    acknowledge: (_id, index, receipt) => {
      if (this.#isOver) return
      this.cursor = Math.max(this.cursor, index)
      if (!receipt) return
      this.stage.receipts.set(this.agentId, receipt)
      for (const player of this.stage.players) {
        if (player.online && player.demand !== ReceiptDemand.UNSPECIFIED) player.mail.set(this.agentId, receipt)
      }
    },
    resume: (questions) => this.#ask(questions),
    queued: () => {},
  }

  /** Set by who issues invites. */
  invites: AgentContext['invites'] = undefined
  readonly turns: undefined = undefined
  readonly offline = undefined

  /** A session is open: the relay is asked to deliver. */
  resume(): void {
    this.#ask([this.channel.intake.question()])
  }

  #ask(questions: readonly ResumeQuestion[]): void {
    const receipts = questions[0]?.receipts ?? ReceiptDemand.UNSPECIFIED
    const value = create(ResumeRequestSchema, { channelIds: [this.stage.channelId], receipts })
    this.session.request({ case: 'resume', value }, (outcome) => {
      if (outcome.type !== 'answered') return
      for (const question of questions) if (question.isOpen()) question.answer(this.stage.stateOf(this))
    })
  }

  get hasMail(): boolean {
    return this.online && this.mail.size > 0
  }

  /** Gets the receipts that wait for it. */
  give(): void {
    const list = [...this.mail].map(([agent, receipt]) => ({ agentId: Buffer.from(agent, 'hex'), receipt }))
    this.mail.clear()
    const { channelId } = this.stage
    this.channel.receipts.deliver(create(ReceiptBatchSchema, { channelId, receipts: list }))
  }

  #cut(arrived: number): void {
    for (const { body } of this.requests.slice(0, arrived)) this.stage.handle(this, body)
    this.online = false
    this.mail.clear()
  }

  /** Epoch and place: the same in all that have followed the same log. */
  get view(): string {
    const { group, history, failure } = this.channel
    if (failure) return failure.code
    return `${group?.facts.epoch} ${toHex(group?.facts.epochAuthenticator ?? new Uint8Array())} ${toHex(history.position.hash)}`
  }

  get epoch(): number {
    return Number(this.channel.group?.facts.epoch ?? -1n)
  }

  send(words: string, limits: SendLimits = {}): Promise<SentMessage> {
    return this.channel.sender.send('payload', Buffer.from(words), limits)
  }

  /** The same, in a turn of its own: the message goes out alone. */
  async sendAlone(words: string, limits: SendLimits = {}): Promise<SentMessage> {
    const sent = this.send(words, limits)
    this.journal.flush()
    return await sent
  }

  /** All payloads that have come and were not taken. */
  async take(): Promise<string[]> {
    const taken: string[] = []
    const reader = this.channel.inbox.read(({ payload }) => Buffer.from(payload).toString())
    for (;;) {
      const next = reader.next()
      const ended = await Promise.race([
        next,
        new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined))),
      ])
      if (!ended || ended.done === true) break
      taken.push(ended.value)
    }
    await reader.return?.()
    return taken
  }
}

/** Makes an agent that is not in the channel yet, and its KeyPackage. */
export async function outsider(
  stage: Stage,
  name: string,
  options: PlayerOptions = {},
): Promise<{
  keyPackage: Uint8Array
  agentId: Uint8Array
  join(welcome: Uint8Array, invite?: InviteSeal): Promise<Player>
}> {
  const agent = new MlsAgent(name)
  const made = await agent.keyPackage(Date.now())
  const join = async (welcome: Uint8Array, invite?: InviteSeal): Promise<Player> => {
    const player = new Player(stage, agent, options)
    player.enter(await engine.join(welcome, made.privatePart, agent.key, { name: NAME, ...(invite && { invite }) }))
    return player
  }
  return { keyPackage: made.keyPackage, agentId: agent.agentId, join }
}

function bodyOf(entry: Entry): Uint8Array {
  if (entry.kind === 'message') return entry.request.ciphertext
  if (entry.kind === 'leave') return leaveBody(entry.notice)
  const { commit, declaration } = entry.request
  return commitBody(commit, declaration ?? assert.fail('no declaration'))
}

function answered(name: 'sendCommit' | 'rejectCommit' | 'liftBar' | 'resume'): Outcome {
  return { type: 'answered', body: { case: name, value: {} } as never }
}

function refused(refusal: Refusal): Outcome {
  return { type: 'refused', error: create(ErrorSchema, refusal) }
}
