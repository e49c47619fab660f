/**
 * An agent: its channels, its KeyPackages and its session. It passes the relay's pushes to their channels; channels
 * send after the turn's transaction.
 *
 * When a session is lost, every pending request ends as `lost`; then `lost` notifies deliveries, requests and each part
 * of each channel (`AgentChannel.lose`). Everything on disk is kept. When a new session opens (`opened`), every channel
 * asks the relay to resume. Its answer notifies the parts again (`Intake.answered` → `AgentChannel.resumed`), and
 * messages on disk are resent unchanged. The relay accepts a message id once, and redelivers whatever was not
 * acknowledged. Joins and invites continue with `Invites.opened`. Calls that await an answer repeat their request
 * (relay-requests.ts).
 *
 * Calls with more than one step are in founding.ts, owning.ts and leaving.ts, in joining/ and in admitting/.
 */
import type { Signer } from '#platform/crypto'
import { type ReceiptMode, StaticError, toHex } from '@static/protocol'
import type { CommitRejected, RosterReset } from '@static/protocol/relay'
import { agentIdOf, ed25519, type MlsEngine, type SignatureKeyPair } from '../mls/index.ts'
import type {
  AgentId,
  AgentStore,
  ChannelId,
  FilesPlace,
  KnownRelay,
  RelaySession,
  SessionInfo,
  SessionListener,
  Snapshot,
  Time,
} from '../ports/index.ts'
import { Journal } from '../channel/journal.ts'
import type { FollowTurns } from '../channel/log/follow-turns.ts'
import type { AgentContext } from './context.ts'
import { Deliveries } from './deliveries.ts'
import { type AgentEvent, Events } from './events.ts'
import { HeldWelcomes } from '../joining/welcome.ts'
import { agentFiles, type FileParts } from '../files/agent-files.ts'
import { IncomingWelcomes } from '../joining/incoming-welcomes.ts'
import { type AgentLog, type HandlerFailure, HandlerLog, isFailure } from './log/handler-log.ts'
import type { InviteHandler } from './invite-handler.ts'
import { type HistoryOption, Keeping } from '../channel/keeping/keeping.ts'
import { KeyPackageSupply } from './key-package-supply.ts'
import { KeyPackages } from './key-packages.ts'
import { finishLeaving } from './leaving.ts'
import { AgentChannels } from './channels.ts'
import type { Offer, OfferPolicy } from '../joining/offers.ts'
import { Pins } from './pins.ts'
import type { DeskListener, ProofDesk } from '../proofs/desk.ts'
import { RelayRequests } from './relay-requests.ts'
import type { AgentServices } from './services.ts'
import { Timers } from './timers.ts'

/** The parts of an agent that are supplied from outside. */
export interface AgentParts {
  readonly store: AgentStore
  readonly engine: MlsEngine
  /** Connects. `ready` resolves with the first session, or rejects with the reason why there is none. */
  connect(
    agent: SessionListener,
    key: SignatureKeyPair,
    relays: Snapshot['relays'],
  ): { session: RelaySession; ready: Promise<void> }
  /** Whether there is a source of tokens. Without one, the agent is a guest. */
  readonly hasTokens: boolean
  now(): Time
  random(bytes: number): Uint8Array
  chance(): number
  /** The agents whose offers are accepted. Default: `anyone`. */
  readonly offers?: OfferPolicy | undefined
  /** The level that the agent's receipts report. Default: `settled`. */
  readonly receipts?: ReceiptMode | undefined
  /** Whether the agent keeps a history. Default: as stored with the agent. */
  readonly history?: HistoryOption | undefined
  /** Shared by the agents of a process. */
  readonly turns?: Pick<FollowTurns, 'wait'> | undefined
  /** Opens what makes and checks proofs; undefined for none. */
  readonly proofs?: ((sign: Signer, listener: DeskListener) => ProofDesk) | undefined
  /** The port of files and the disk; undefined for an agent without files. */
  readonly files?: FileParts | undefined
  /** Gets warnings about handlers that fail; undefined for none. */
  readonly log?: AgentLog | undefined
  /** The API that the agent uses. Its pages explain error codes. */
  readonly apiUrl?: string | undefined
}

const TICK_MS = 5000
const CHECKPOINT_MS = 60_000

export class Agent implements SessionListener, AgentServices {
  readonly context: AgentContext
  readonly channels: AgentChannels
  readonly requests: RelayRequests
  readonly timers: Timers = new Timers()
  readonly keyPackages: KeyPackages
  readonly held: HeldWelcomes = new HeldWelcomes(this)
  readonly events: Events<AgentEvent> = new Events()
  readonly offers: Events<Offer> = new Events()
  readonly stored: Pick<Snapshot, 'invites' | 'joiners' | 'attempts'>
  /** Resolves with the first session, or rejects with the reason why there is none. */
  readonly ready: Promise<void>
  readonly #parts: AgentParts
  readonly #deliveries: Deliveries
  readonly #supply: KeyPackageSupply
  readonly #welcomes: IncomingWelcomes
  readonly #invites: InviteHandler | undefined
  readonly #session: RelaySession
  readonly #log: HandlerLog | undefined
  #info: SessionInfo | undefined
  #relay: KnownRelay | undefined
  #filesPlace: FilesPlace | undefined
  #offline: StaticError | undefined
  #checkpointAt: Time
  #stopped = false
  #closed: Promise<void> | undefined

  /** `invites` creates the handler of invites, if there is one. */
  constructor(parts: AgentParts, invites?: (agent: AgentServices) => InviteHandler) {
    const { identity, keyPackages, channels, removed, pins, relays, keepingDays, ...stored } = parts.store.load()
    const key = { publicKey: identity.publicKey, seed: identity.secretKey }
    this.stored = stored
    this.#parts = parts
    this.#log =
      parts.log &&
      new HandlerLog(
        parts.log,
        () => parts.now(),
        () => this.events.isRead,
      )
    const session = Agent.#sessionOf(this)
    this.#deliveries = new Deliveries(session, this.timers)
    this.context = Agent.#contextOf(this, key, session, { pins, identity, keepingDays })
    this.keyPackages = new KeyPackages(this.context, identity.identity, keyPackages)
    this.requests = new RelayRequests(session, this.timers)
    this.#supply = new KeyPackageSupply(this)
    this.#welcomes = new IncomingWelcomes(this, parts.offers ?? 'anyone', (offer) => this.offers.emit(offer))
    this.channels = new AgentChannels(this.context, this.keyPackages, removed, (id) => this.#dropped(id))
    for (const channel of channels) this.channels.hold(channel)
    this.#checkpointAt = parts.now() + CHECKPOINT_MS
    this.timers.every(TICK_MS, () => this.#tick())
    this.#invites = invites?.(this)
    const connected = parts.connect(this, key, relays)
    this.#session = connected.session
    this.ready = connected.ready
  }

  get keeping(): Keeping {
    return this.context.keeping
  }

  get agentId(): AgentId {
    return this.context.agentId
  }

  get apiUrl(): string | undefined {
    return this.#parts.apiUrl
  }

  get hasTokens(): boolean {
    return this.#parts.hasTokens
  }

  /** The relay of the current or last session, if there was one. */
  get relay(): KnownRelay | undefined {
    return this.#relay
  }

  get filesPlace(): FilesPlace | undefined {
    return this.#filesPlace
  }

  get hasAccountSession(): boolean {
    return this.#info?.guest === false
  }

  /** Shuts down in order: writes pending changes, and rejects pending calls with `closed`. */
  async close(): Promise<void> {
    this.#closed ??= this.#close()
    await this.#closed
  }

  async #close(): Promise<void> {
    this.context.journal.flush()
    for (const channel of this.channels) channel.signOff()
    // Acknowledgements of a turn are sent together, at its end.
    await Promise.resolve()
    this.#stop(StaticError.of('closed', 'The client is closed. Create a new one.'), undefined)
    for (const channel of this.channels) await channel.idle()
    this.context.journal.flush()
    this.#parts.files?.line.close()
    await this.#session.close()
    // Settled since then, and waiting for a transaction to join.
    this.context.journal.flush()
    this.#parts.store.close()
    this.context.key.seed.fill(0)
  }

  fail(error: StaticError): void {
    if (!this.#stopped) this.#fail(error)
  }

  // ---- Events of the session ----

  opened(info: SessionInfo): void {
    // The session does not report a loss when it moves to another transport.
    if (this.#info) for (const channel of this.channels) channel.lose()
    this.#info = info
    this.#deliveries.opened()
    this.held.clear()
    this.#relay = info.relay
    this.#filesPlace = info.files
    this.#offline = undefined
    this.requests.opened()
    this.context.emit({ type: 'connected', way: info.way })
    const wanted = [...this.channels].filter(({ intake }) => intake.isWanted)
    this.#deliveries.resume(wanted.map(({ intake }) => intake.question()))
    for (const channel of this.channels) {
      if (channel.state === 'leaving') finishLeaving(this, channel).catch(() => {})
    }
    this.#supply.topUp(info.keyPackages)
    this.#invites?.opened(info)
  }

  lost(error: StaticError): void {
    this.#info = undefined
    this.#deliveries.lost()
    this.#offline = error
    this.requests.lost()
    for (const channel of this.channels) channel.lose()
    this.context.emit({ type: 'disconnected', error })
  }

  push(body: Parameters<SessionListener['push']>[0]): void {
    switch (body.case) {
      case 'deliverMessage':
      case 'deliverCommit':
      case 'deliverLeave':
      case 'gap':
        this.channels.get(toHex(body.value.channelId))?.intake.deliver(body)
        return
      case 'deliverWelcome':
        this.#welcomes.receive(body.value)
        return
      case 'joinAnswered':
        this.#invites?.refused(body.value.inviteId, body.value.code)
        return
      case 'commitRejected':
        this.#rejected(body.value)
        return
      case 'rosterReset':
        this.#rosterReset(body.value)
        return
      case 'channelDeleted':
        this.channels.get(toHex(body.value.channelId))?.over('not_found')
        return
      case 'receipts':
        this.channels.get(toHex(body.value.channelId))?.receipts.deliver(body.value)
        return
      case 'keyPackagesLow':
        this.#supply.topUp(body.value.held)
        return
      default:
      // Answers do not arrive here, and pushes of a newer relay are ignored.
    }
  }

  pin(relayName: string, relay: KnownRelay): void {
    this.context.journal.add({ type: 'putRelay', relayName, ...relay })
  }

  // ---- Internals ----

  static #contextOf(
    agent: Agent,
    key: SignatureKeyPair,
    session: Pick<RelaySession, 'request'>,
    { pins, identity, keepingDays }: Pick<Snapshot, 'pins' | 'identity' | 'keepingDays'>,
  ): AgentContext {
    const parts = agent.#parts
    const { store, engine } = parts
    const journal = new Journal(store, (error) => agent.#fail(error))
    const keepingContext = {
      journal,
      identity: identity.identity,
      now: () => parts.now(),
      all: () => [...agent.channels].map(({ kept }) => kept),
    }
    const sign = ed25519.signer(key)
    const proofs = parts.proofs?.(sign, {
      changed: () => agent.#review(),
      failed: (error) => agent.#emit({ type: 'trust_failed', error }),
      ending: (statement) => agent.#emit({ type: 'proof_ending', ...statement }),
    })
    return {
      agentId: toHex(agentIdOf(key.publicKey)),
      key,
      sign,
      engine,
      journal,
      turns: parts.turns,
      pins: new Pins(pins, journal),
      proofs,
      keeping: new Keeping(keepingContext, keepingDays, parts.history),
      receipts: parts.receipts ?? 'settled',
      files: agentFiles(parts.files),
      session,
      get offline() {
        return agent.#offline
      },
      deliveries: agent.#deliveries,
      get invites() {
        return agent.#invites
      },
      now: () => parts.now(),
      random: (bytes) => parts.random(bytes),
      chance: () => parts.chance(),
      later: (milliseconds, action) => agent.timers.later(milliseconds, action),
      emit: (event, failure) => agent.#emit(event, failure),
    }
  }

  /** The session for the parts of an agent. It is opened after them, because it calls them. */
  static #sessionOf(agent: Agent): Omit<RelaySession, 'close'> {
    return {
      request: (body, done) => agent.#session.request(body, done),
      ack: (positions) => agent.#session.ack(positions),
      hold: () => agent.#session.hold(),
      release: () => agent.#session.release(),
    }
  }

  #emit(event: AgentEvent, failure?: HandlerFailure): void {
    if ('error' in event) event.error.explainAt(this.apiUrl)
    this.events.emit(event)
    if (isFailure(event)) this.#log?.warn(event, failure)
    if (event.type === 'channel_failed') this.#invites?.failed(event.channel)
  }

  #rejected({ channelId, sender, undoneAdds }: CommitRejected): void {
    const channel = this.channels.get(toHex(channelId))
    if (!channel) return
    this.#emit({ type: 'commit_rejected', channel: channel.name, sender: toHex(sender) })
    // If this agent is no longer a member, the relay delivers nothing more; its answer to Resume reports that.
    const { intake } = channel
    if (intake.isWanted && undoneAdds.some((agent) => toHex(agent) === this.agentId)) intake.resume()
  }

  /**
   * Resumes if this agent returned to the roster, to fetch the entries it missed, or was dropped, to learn that it
   * ended.
   */
  #rosterReset({ channelId, dropped, returned }: RosterReset): void {
    const intake = this.channels.get(toHex(channelId))?.intake
    if (intake?.isWanted && [...dropped, ...returned].some((agent) => toHex(agent) === this.agentId)) intake.resume()
  }

  /** A channel is gone. Welcomes to later memberships of it were made for requests that are still valid. */
  #dropped(id: ChannelId): void {
    for (const welcome of this.held.release(id)) this.#welcomes.receive(welcome)
    this.#invites?.dropped(id)
  }

  #tick(): void {
    const now = this.context.now()
    this.keeping.tick(now, this.channels)
    for (const { upkeep, proving, files, approvals } of this.channels) {
      upkeep.tick(now)
      proving.tick()
      files.tick(now)
      approvals.tick()
    }
    if (now < this.#checkpointAt) return
    this.#checkpointAt = now + CHECKPOINT_MS
    try {
      this.#parts.store.checkpoint()
    } catch (error) {
      this.#fail(StaticError.from(error))
    }
  }

  /** Roots or keys may have changed. */
  #review(): void {
    if (!this.#stopped) for (const { proving } of this.channels) proving.review()
  }

  /** Stops because the store failed: memory is ahead of the disk, and nothing may leave the process. */
  #fail(error: StaticError): void {
    this.#stop(error, error)
    this.#session.close().catch(() => {})
  }

  /** Stops all activity: pending and later calls get the error. */
  #stop(error: StaticError, forReaders: StaticError | undefined): void {
    if (this.#stopped) return
    this.#stopped = true
    this.#invites?.stop(forReaders)
    this.context.proofs?.stop()
    this.timers.stop(error)
    for (const channel of this.channels) {
      channel.end(error, forReaders)
      channel.seal()
    }
    this.requests.stop(error)
    this.events.close()
    this.offers.close()
  }
}
