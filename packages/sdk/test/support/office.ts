/**
 * An issuer and those who believe it, without files, network and waiting: for worlds in which every run is the same. What
 * it gives out counts as SPEC.md, 7.1, wants it: for one agent, owner, channel and place. The real formats and checks have
 * tests of their own (`../proofs`).
 */
import { createHmac, randomBytes } from 'node:crypto'
import { StaticError, toHex } from '@static/protocol'
import { agentIdOf } from '../../src/mls/index.ts'
import type { AgentId } from '../../src/ports/index.ts'
import type { ProofDesk } from '../../src/proofs/desk.ts'
import type { ProofContext } from '../../src/proofs/proof.ts'
import type { CheckedProof, Verdict } from '../../src/proofs/verdict.ts'

export const OFFICE = 'acme.example'
const LIFE_MS = 30 * 86_400_000

/** What a proof of the office says. */
interface Claims {
  readonly name: string
  readonly place: string
  readonly mac: string
}

/** The issuer. */
export class Office {
  /** Its proofs that were shown, or made to be shown. */
  readonly shown: Uint8Array[] = []
  readonly #key = randomBytes(32)
  readonly #employees = new Map<AgentId, string>()

  /** Says of an agent that it is its own. */
  employ(agent: AgentId, name: string): void {
    this.#employees.set(agent, name)
  }

  nameOf(agent: AgentId): string | undefined {
    return this.#employees.get(agent)
  }

  /** What is wrong with a verdict of somebody about an agent; undefined if nothing is. */
  wrongAbout(
    agent: AgentId,
    verdict: Pick<CheckedProof, 'state' | 'name' | 'subject'> | Pick<Verdict, 'state'>,
  ): string | undefined {
    if (verdict.state !== 'checked') return undefined
    const { name, subject } = verdict as CheckedProof
    const own = this.#employees.get(agent)
    return name === OFFICE && own !== undefined && subject === own
      ? undefined
      : `${agent} is taken for ${subject} of ${name}`
  }

  /** A proof that the office vouches for, of anybody and for any place. */
  issue(name: string, context: ProofContext): Uint8Array {
    const place = placeIn(context)
    return Buffer.from(JSON.stringify({ name, place, mac: this.#macOf(name, place) } satisfies Claims))
  }

  /** The desk of an agent that believes the office. One that it does not employ shows the proof of another. */
  desk(now: () => number): ProofDesk {
    return {
      make: async (_show, context) => {
        const name = this.#employees.get(toHex(agentIdOf(context.publicKey)))
        const proof = name === undefined ? this.shown.at(-1) : this.issue(name, context)
        if (proof === undefined) throw StaticError.of('invalid_request', 'There is nothing to show.')
        this.shown.push(proof)
        return await Promise.resolve(proof)
      },
      check: async (proof, context) => await Promise.resolve(this.#check(proof, context, now())),
      standing: (checked) => checked,
      stop: () => {},
    }
  }

  #check(proof: Uint8Array, context: ProofContext, now: number): Verdict {
    const claims = claimsOf(proof)
    if (!claims) return { state: 'invalid', reason: 'it is not a proof' }
    const { name, place, mac } = claims
    if (mac !== this.#macOf(name, place)) return { state: 'unchecked', reason: 'no root', claimed: 'evil.example' }
    if (place !== placeIn(context)) return { state: 'invalid', reason: 'this member did not sign it for this place' }
    const facts = { root: OFFICE, key: 'key', issuedAt: 1 }
    return { state: 'checked', kind: 'domain', name: OFFICE, subject: name, until: now + LIFE_MS, facts }
  }

  #macOf(name: string, place: string): string {
    return createHmac('sha256', this.#key).update(`${name}\n${place}`).digest('hex')
  }
}

function claimsOf(proof: Uint8Array): Claims | undefined {
  try {
    const claims = JSON.parse(Buffer.from(proof).toString()) as Partial<Claims> | null
    const isOne = [claims?.name, claims?.place, claims?.mac].every((text) => typeof text === 'string')
    return isOne ? (claims as Claims) : undefined
  } catch {
    return undefined
  }
}

function placeIn({ channelId, ownerId, publicKey, place }: ProofContext): string {
  const at = typeof place === 'number' ? `entry ${place}` : `box ${toHex(place)}`
  return [toHex(agentIdOf(publicKey)), toHex(ownerId), toHex(channelId), at].join(' ')
}
