/**
 * The requests of joins by token (SPEC.md, 6.3): makes, renews and sends them. The joins of a channel share one request.
 * If the owner asks for a proof, the relay is first asked for the key to which the request is encrypted.
 */
import { sha256 } from '#platform/crypto'
import { fromHex, StaticError } from '@static/protocol'
import type { RequestJoinResponse } from '@static/protocol/relay'
import type { AgentServices } from '../agent/services.ts'
import { KeyedMutex } from '../mls/index.ts'
import type { AttemptRecord, SessionInfo } from '../ports/index.ts'
import { refusalError, retryDelay } from '../ports/refusal.ts'
import { checkName } from './held-channel.ts'
import { isIn, isOver, type Join } from './join.ts'
import type { OpenJoins } from './open-joins.ts'
import { isBoxKey } from './proof-box.ts'
import { JOIN_NONCE_BYTES, placeOf, requestOf, sealProvingRequest, sealRequest } from './request.ts'

/** A request deferred for at least this long is reported to the application. */
const REPORTED_WAIT_MS = 2000

/** How long after a failure a token is asked for again. */
const AGAIN_MS = 15_000

/**
 * How long a joiner waits for a Welcome after its invite expired, or after it was removed in order to be added again.
 */
export const LATE_WELCOME_MS = 5000

/** What follows a request. */
interface Then {
  /** The join takes its next step after a delay, unless it has entered a channel by then. */
  stepLater(join: Join, waitMs: number): void
  /** The token cannot be used. */
  refuse(join: Join, error: StaticError): void
}

/** The requests of an agent's joins. */
export class JoinRequests {
  readonly #agent: Pick<AgentServices, 'context' | 'channels' | 'keyPackages'>
  readonly #open: OpenJoins
  readonly #then: Then
  /** The joins of a channel share one request, so each waits for the request that another creates. */
  readonly #turns = new KeyedMutex()
  #info: SessionInfo | undefined

  constructor(agent: Pick<AgentServices, 'context' | 'channels' | 'keyPackages'>, open: OpenJoins, then: Then) {
    this.#agent = agent
    this.#open = open
    this.#then = then
  }

  /** The current or last session. */
  get info(): SessionInfo | undefined {
    return this.#info
  }

  opened(info: SessionInfo): void {
    this.#info = info
  }

  /** Runs a task while no other one changes the requests for this channel. */
  async inTurn<Result>(name: string, task: () => Promise<Result>): Promise<Result> {
    return await this.#turns.run(name, task)
  }

  /** Sends the request of a join. */
  async send(join: Join): Promise<void> {
    const { context } = this.#agent
    await this.inTurn(join.record.name, () => this.#renew(join))
    const info = this.#info
    const { record } = join
    checkName(this.#agent, record.name, record.channel)
    const mayAsk = (): boolean => {
      const state = this.#open.stateOf(join)
      return !isOver(state) && !isIn(state)
    }
    if (!info || !mayAsk()) return
    // Neither the relay nor the owner answers a request whose invite expired while it waited.
    const left = record.expiresAt - context.now()
    const dueMs = left > 0 ? left + LATE_WELCOME_MS : Infinity
    if (left > 0) this.#then.stepLater(join, dueMs)
    if (!record.boxKeyHash) {
      const box = sealRequest(join.keys, placeOf(record), record)
      return void (await this.#request(join, info, box, dueMs))
    }
    // While the relay looks for the key.
    const making = record.show === undefined ? undefined : this.#proofFor(join)
    join.boxKey ??= await this.#boxKeyFor(join, info, dueMs)
    if (!join.boxKey) return
    const proof = await (making ?? this.#proofFor(join))
    if (!proof) return
    const proving = { keys: join.keys, place: placeOf(record), agentId: fromHex(context.agentId) }
    const box = await sealProvingRequest(context.engine, proving, join.boxKey, { ...record, proof })
    // Otherwise another step asks, in the session or with the request that there is now.
    if (info === this.#info && join.record.nonce === record.nonce && mayAsk()) {
      await this.#request(join, info, box, dueMs)
    }
  }

  /** Sends a request with this box. Resolves with the relay's answer; undefined if there is none. */
  async #request(
    join: Join,
    info: SessionInfo,
    box: Uint8Array,
    dueMs: number,
  ): Promise<RequestJoinResponse | undefined> {
    const { context } = this.#agent
    const { record } = join
    const answer = Promise.withResolvers<RequestJoinResponse | undefined>()
    const value = requestOf(join.keys, box, info, context.agentId)
    context.session.request({ case: 'requestJoin', value }, (outcome) => {
      answer.resolve(
        outcome.type === 'answered' && outcome.body.case === 'requestJoin' ? outcome.body.value : undefined,
      )
      if (outcome.type !== 'refused' || isIn(this.#open.stateOf(join))) return
      const { code, retryAfterMs } = outcome.error
      const error = refusalError(outcome.error)
      if (code !== 'rate_limited' && code !== 'unavailable') return this.#then.refuse(join, error)
      const waitMs = retryDelay(retryAfterMs)
      if (waitMs >= REPORTED_WAIT_MS) context.emit({ type: 'throttled', channel: record.name, error, waitMs })
      this.#then.stepLater(join, Math.min(waitMs, dueMs))
    })
    return await answer.promise
  }

  /** The proof that the request carries. A token lives for minutes, so each session has another. */
  async #proofFor(join: Join): Promise<Uint8Array | undefined> {
    const { proofs, key } = this.#agent.context
    const { record } = join
    const { show, keyPackage, owner, channel } = record
    if (show === undefined || !proofs) {
      const text = `The owner of channel ${record.name} asks for a proof of who runs this agent, and it shows none. Name one: \`show\`, or \`--show\` on the command line.`
      this.#then.refuse(join, StaticError.of('proof_required', text))
      return undefined
    }
    try {
      const [channelId, ownerId] = [fromHex(channel), fromHex(owner)]
      return await proofs.make(show, { channelId, ownerId, publicKey: key.publicKey, place: sha256(keyPackage) })
    } catch (error) {
      const reason = StaticError.from(error)
      // The relay has refused the invite meanwhile.
      if (isOver(this.#open.stateOf(join))) return undefined
      if (reason.retryable) {
        this.#agent.context.emit({ type: 'throttled', channel: record.name, error: reason, waitMs: AGAIN_MS })
        this.#then.stepLater(join, AGAIN_MS)
      } else this.#then.refuse(join, reason)
      return undefined
    }
  }

  /** The key to which the request is encrypted, from the relay. A key that the token does not name ends the join. */
  async #boxKeyFor(join: Join, info: SessionInfo, dueMs: number): Promise<Uint8Array | undefined> {
    const { boxKeyHash } = join.record
    const answer = await this.#request(join, info, new Uint8Array(), dueMs)
    if (!answer || !boxKeyHash) return undefined
    if (isBoxKey(answer.boxKey, boxKeyHash)) return Uint8Array.from(answer.boxKey)
    const text = 'The relay returned a key that is not the one in the invite token. Ask the owner for another token.'
    this.#then.refuse(join, StaticError.of('invite_invalid', text))
    return undefined
  }

  /**
   * Makes a new request if a membership that has ended used the KeyPackage. All tokens share the new one, because
   * otherwise a member that adds this agent by one would remove it in order to add it by the next.
   */
  async #renew(join: Join): Promise<void> {
    const { context, keyPackages } = this.#agent
    if (isOver(this.#open.stateOf(join)) || keyPackages.has(join.record.keyPackage)) return
    const other = this.#open.alike(join.record).find(({ record }) => keyPackages.has(record.keyPackage))
    const { nonce, keyPackage } = other?.record ?? (await this.fresh())
    if (isOver(this.#open.stateOf(join))) return keyPackages.forget(keyPackage)
    this.#open.change(join, { nonce, keyPackage })
    await context.journal.written()
  }

  async fresh(): Promise<Pick<AttemptRecord, 'nonce' | 'keyPackage'>> {
    const { keyPackage } = await this.#agent.keyPackages.make(false)
    return { nonce: this.#agent.context.random(JOIN_NONCE_BYTES), keyPackage }
  }
}
