/** KeyPackages: agents upload them, and members claim one of an agent that they want to add. */
import { MAX_KEY_PACKAGE_BYTES, MAX_KEY_PACKAGES, message, StaticError, toHex } from '@static/protocol'
import {
  type AddMemberRequest,
  AddMemberResponseSchema,
  KeyPackagesLowSchema,
  type UploadKeyPackageRequest,
  UploadKeyPackageResponseSchema,
} from '@static/protocol/relay'
import type { AgentId } from '../../ports.ts'
import type { PendingRequest } from '../pending-request.ts'
import { Rates } from '../rates.ts'
import { accountOf, agentIdOf, channelIdOf, wrong } from '../request-fields.ts'
import { serverMessage } from '../server-messages.ts'
import { accepted, actorOf, type ChannelContext } from './context.ts'
import { KeyPackagePool, type PooledKeyPackage } from './key-package-pool.ts'
import { readKeyPackage } from './key-package-reader.ts'

/** The group context extension of channels (SPEC.md 4): nobody adds an agent that does not support it. */
const REQUIRED_EXTENSION = 0xf57a
/** Entries of a list in a leaf's capabilities: the bound that members keep to. */
const MAX_CAPABILITIES = 32
const LOW_KEY_PACKAGES = 8
const CLOCK_SKEW_MS = 3_600_000

/** The KeyPackages of one node. */
export class KeyPackages {
  readonly #context: ChannelContext
  readonly #pool: KeyPackagePool
  readonly #uploads: Rates
  readonly #claims: Rates
  readonly #claimed: Rates

  constructor(context: ChannelContext) {
    this.#context = context
    const { rates, counts } = context.settings
    this.#pool = new KeyPackagePool(counts.keyPackageAgents)
    this.#uploads = new Rates(rates.uploadsPerMinute / 60, rates.uploadsPerMinute)
    this.#claims = new Rates(rates.claimsPerMinute / 60, rates.claimsPerMinute)
    this.#claimed = new Rates(rates.claimsPerTargetPerMinute / 60, rates.claimsPerTargetPerMinute)
  }

  /** How many of an agent are there. */
  held(agent: AgentId): number {
    return this.#pool.held(agent, this.#context.effects.now)
  }

  upload(request: PendingRequest, { keyPackages }: UploadKeyPackageRequest): void {
    const account = accountOf(request)
    const { agent, publicKey } = request.caller
    const wait = this.#uploads.take(agent, this.#context.effects.monotonic)
    if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
    if (keyPackages.length === 0 || keyPackages.length > MAX_KEY_PACKAGES) throw wrong('1 to 64 KeyPackages are sent')
    const read = keyPackages.map((bytes) => this.#read(bytes, publicKey))
    for (const loser of this.#pool.add(account, agent, read)) this.#warnLow(loser)
    const value = message(UploadKeyPackageResponseSchema, { held: this.held(agent) })
    request.answer({ case: 'uploadKeyPackage', value })
  }

  /** Hands out one of an agent that a member is about to add. */
  claim(request: PendingRequest, value: AddMemberRequest): void {
    const { effects } = this.#context
    accountOf(request)
    const channel = channelIdOf(value.channelId)
    const agent = agentIdOf(value.agentId)
    const actor = actorOf(request)
    effects.store('check', { actor, channel }, (outcome) => {
      if (!accepted(request, outcome)) return
      const { now, monotonic } = effects
      // One that may not claim does not use up what others may claim of this agent.
      const wait = this.#claims.take(actor.agent, monotonic) || this.#claimed.take(agent, monotonic)
      if (wait > 0) return request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
      const keyPackage = this.#pool.take(agent, now)
      if (!keyPackage) return request.refuse({ refused: 'key_package_unavailable' })
      request.answer({ case: 'addMember', value: message(AddMemberResponseSchema, { keyPackage }) })
      this.#warnLow(agent)
    })
  }

  #read(bytes: Uint8Array, publicKey: Uint8Array): PooledKeyPackage {
    const { crypto, effects } = this.#context
    const { now } = effects
    if (bytes.length > MAX_KEY_PACKAGE_BYTES) {
      throw unusable(`it has ${bytes.length} bytes; at most ${MAX_KEY_PACKAGE_BYTES} are allowed`)
    }
    const facts = readKeyPackage(bytes)
    if (!facts) throw wrong('every KeyPackage is an MLSMessage with a KeyPackage of the one suite')
    if (facts.longestList > MAX_CAPABILITIES) {
      throw unusable(
        `a list of its capabilities has ${facts.longestList} entries; at most ${MAX_CAPABILITIES} are allowed`,
      )
    }
    if (!facts.extensions.includes(REQUIRED_EXTENSION)) {
      throw unusable("its leaf's capabilities do not list the extension type 0xF57A, which every channel requires")
    }
    if (!crypto.equal(facts.signatureKey, publicKey)) throw wrong("every KeyPackage has this agent's key")
    const { notBefore, notAfter } = facts
    if (notAfter * 1000 <= now || notBefore > notAfter || notBefore * 1000 > now + CLOCK_SKEW_MS) {
      throw wrong('every KeyPackage is good now')
    }
    // Copied: the bytes are a view of the whole request.
    return { bytes: new Uint8Array(bytes), hash: toHex(crypto.hash(bytes)), notAfter: notAfter * 1000 }
  }

  #warnLow(agent: AgentId): void {
    const held = this.held(agent)
    const { effects, delivery } = this.#context
    const session = delivery.session(agent)
    if (!session || held >= LOW_KEY_PACKAGES) return
    const value = message(KeyPackagesLowSchema, { held })
    effects.send([session.stream.id], serverMessage({ case: 'keyPackagesLow', value }))
  }
}

function unusable(reason: string): StaticError {
  return StaticError.of('invalid_request', `A KeyPackage is refused: ${reason}.`)
}
