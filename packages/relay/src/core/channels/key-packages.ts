/** KeyPackages: agents upload them, and members claim one to add its agent to a channel. */
import { ERRORS, MAX_KEY_PACKAGE_BYTES, MAX_KEY_PACKAGES, message, StaticError, toHex } from '@static/protocol'
import {
  type AddMemberRequest,
  AddMemberResponseSchema,
  KeyPackagesLowSchema,
  type UploadKeyPackageRequest,
  UploadKeyPackageResponseSchema,
} from '@static/protocol/relay'
import type { Account, AgentId } from '../../ports.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import { Rates } from '../requests/rates.ts'
import { accountOf, agentIdOf, channelIdOf, wrong } from '../requests/request-fields.ts'
import { type RefusalDetails, serverMessage, tooOften } from '../server-messages.ts'
import { accepted, actorOf, type ChannelContext } from './context.ts'
import { ClaimShares, LOW_KEY_PACKAGES } from './claim-shares.ts'
import { KeyPackagePool, type PooledKeyPackage } from './key-package-pool.ts'
import { readKeyPackage, SEAL_KEY_EXTENSION } from './key-package-reader.ts'
import type { Claimed } from './other-nodes.ts'

/** The extensions that every leaf of a channel must support (SPEC.md, 4.1): without them, an agent cannot be added. */
const REQUIRED_EXTENSIONS: readonly number[] = [0xf57a, SEAL_KEY_EXTENSION]
/** Entries of a list in a leaf's capabilities: the limit that members enforce. */
const MAX_CAPABILITIES = 32
const SUITE_NAME = 'MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519'
const CLOCK_SKEW_MS = 3_600_000
const MOVED_AT_ONCE = 8

/** The KeyPackages of one node. */
export class KeyPackages {
  readonly #context: ChannelContext
  readonly #pool: KeyPackagePool
  readonly #uploads: Rates
  readonly #claims: Rates
  readonly #shares: ClaimShares

  constructor(context: ChannelContext) {
    this.#context = context
    const { rates, counts } = context.settings
    this.#pool = new KeyPackagePool(counts.keyPackageAgents)
    this.#uploads = new Rates(rates.uploadsPerMinute / 60, rates.uploadsPerMinute)
    this.#claims = new Rates(rates.claimsPerMinute / 60, rates.claimsPerMinute)
    this.#shares = new ClaimShares(rates.claimsPerTargetPerMinute)
  }

  held(agent: AgentId): number {
    return this.#pool.held(agent, this.#context.effects.now)
  }

  upload(request: PendingRequest, { keyPackages }: UploadKeyPackageRequest): void {
    const account = accountOf(request)
    const { agent, publicKey } = request.caller
    const wait = this.#uploads.take(agent, this.#context.effects.monotonic)
    const { uploadsPerMinute } = this.#context.settings.rates
    if (wait > 0) return request.refuse(tooOften(uploadsPerMinute, 'uploads per agent', wait))
    if (keyPackages.length === 0 || keyPackages.length > MAX_KEY_PACKAGES) throw tooMany(keyPackages.length)
    const read = keyPackages.map((bytes) => this.#read(bytes, publicKey))
    for (const loser of this.#pool.add(account, agent, read)) this.#warnLow(loser)
    this.#context.cluster()?.follow(agent)
    const identity = readKeyPackage(keyPackages[0] ?? new Uint8Array())?.identity
    if (identity) this.#context.presence.named(agent, account, identity, this.#context.effects.now)
    const value = message(UploadKeyPackageResponseSchema, { held: this.held(agent) })
    request.answer({ case: 'uploadKeyPackage', value })
  }

  /** Gives a member one KeyPackage of the agent it is about to add. */
  claim(request: PendingRequest, value: AddMemberRequest): void {
    const { effects } = this.#context
    const account = accountOf(request)
    const channel = channelIdOf(value.channelId)
    const agent = agentIdOf(value.agentId)
    const actor = actorOf(request)
    effects.store('check', { actor, channel }, (outcome) => {
      if (!accepted(request, outcome)) return
      const { monotonic } = effects
      // An agent over its own limit must not use up the share of its account.
      const { claimsPerMinute, claimsPerTargetPerMinute } = this.#context.settings.rates
      const wait = this.#claims.take(actor.agent, monotonic)
      if (wait > 0) return request.refuse(tooOften(claimsPerMinute, 'AddMember requests per agent', wait))
      const answer = ({ keyPackage, waitMs }: Claimed): void => {
        if (waitMs > 0) return request.refuse(shareUsedUp(agent, claimsPerTargetPerMinute, waitMs))
        if (!keyPackage) return request.refuse(noneLeft(agent))
        request.answer({ case: 'addMember', value: message(AddMemberResponseSchema, { keyPackage }) })
      }
      const cluster = this.#context.cluster()
      if (cluster && this.held(agent) === 0) return cluster.claim(agent, account, answer)
      answer(this.hand(agent, account))
    })
  }

  /** Hands out one KeyPackage of an agent to an account. */
  hand(agent: AgentId, claimant: Account): Claimed {
    const { effects, delivery } = this.#context
    const supply = this.#pool.supply(agent, effects.now)
    if (!supply) return { keyPackage: undefined, waitMs: 0 }
    const isConnected = delivery.session(agent) !== undefined
    const waitMs = this.#shares.take(claimant, agent, { ...supply, isConnected }, effects.monotonic)
    if (waitMs > 0) return { keyPackage: undefined, waitMs }
    const keyPackage = this.#pool.take(agent, effects.now)
    this.#warnLow(agent)
    return { keyPackage, waitMs }
  }

  /**
   * Releases the KeyPackages of an agent to the node where it now has its session, in parts that fit into a message.
   */
  *release(agent: AgentId): Iterable<{ readonly account: Account; readonly keyPackages: readonly PooledKeyPackage[] }> {
    const released = this.#pool.release(agent, this.#context.effects.now)
    if (!released) return
    const { account, keyPackages } = released
    for (let at = 0; at < keyPackages.length; at += MOVED_AT_ONCE) {
      yield { account, keyPackages: keyPackages.slice(at, at + MOVED_AT_ONCE) }
    }
  }

  /** Takes over KeyPackages that another node has checked and given up. */
  receive(account: Account, agent: AgentId, keyPackages: readonly PooledKeyPackage[]): void {
    for (const loser of this.#pool.add(account, agent, keyPackages, 'older')) this.#warnLow(loser)
  }

  #read(bytes: Uint8Array, publicKey: Uint8Array): PooledKeyPackage {
    const { crypto, effects } = this.#context
    const { now } = effects
    if (bytes.length > MAX_KEY_PACKAGE_BYTES) {
      throw unusable(`it is ${bytes.length} bytes; at most ${MAX_KEY_PACKAGE_BYTES} are allowed`)
    }
    const facts = readKeyPackage(bytes)
    if (!facts) throw unusable(`it is not an MLSMessage with a KeyPackage of suite ${SUITE_NAME}`)
    if (facts.longestList > MAX_CAPABILITIES) {
      throw unusable(
        `a list of its capabilities has ${facts.longestList} entries; at most ${MAX_CAPABILITIES} are allowed`,
      )
    }
    const missing = REQUIRED_EXTENSIONS.find((type) => !facts.extensions.includes(type))
    if (missing !== undefined) {
      const type = `0x${missing.toString(16).toUpperCase()}`
      throw unusable(`its leaf's capabilities do not list the extension type ${type}, which every channel requires`)
    }
    if (!facts.sealable) throw unusable('it has no key to seal its Welcome (extension type 0xF57C)')
    if (!crypto.equal(facts.signatureKey, publicKey)) throw unusable('its signature key is not the key of this agent')
    const { notBefore, notAfter } = facts
    if (notAfter * 1000 <= now || notBefore > notAfter || notBefore * 1000 > now + CLOCK_SKEW_MS) {
      const seconds = Math.floor(now / 1000)
      throw unusable(`it is valid from ${notBefore} to ${notAfter}, now is ${seconds} (seconds since 1970)`)
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

function shareUsedUp(agent: AgentId, perMinute: number, retryAfterMs: number): RefusalDetails {
  const message =
    `This account has had its share of the KeyPackages of agent ${agent}: ${perMinute} a minute, and of the last ` +
    `${LOW_KEY_PACKAGES - 1} none if it has had one since the agent's last upload. ` +
    `Retry after ${Math.ceil(retryAfterMs / 1000)} s.`
  return { refused: 'rate_limited', retryAfterMs, message }
}

function noneLeft(agent: AgentId): RefusalDetails {
  const problem = `The relay has no KeyPackage for agent ${agent}.`
  return { refused: 'key_package_unavailable', message: `${problem} ${ERRORS.key_package_unavailable.remedy}` }
}

function tooMany(count: number): StaticError {
  return wrong(`\`key_packages\` must have 1 to ${MAX_KEY_PACKAGES} entries, not ${count}`)
}

function unusable(reason: string): StaticError {
  return StaticError.of('invalid_request', `A KeyPackage is invalid: ${reason}.`)
}
