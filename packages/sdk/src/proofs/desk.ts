/** Makes and checks proofs for an agent: a port, because keys are fetched, and tokens come from files and services. */
import type { StaticError } from '@static/protocol'
import type { ProofContext } from './proof.ts'
import type { CheckedProof, Verdict } from './verdict.ts'

/** Hears of a desk. */
export interface DeskListener {
  /** Verdicts may have another worth. */
  changed(): void
  /** The trust list or the keys of issuers cannot be read or written. Told once, until that has ended. */
  failed(error: StaticError): void
  /** A statement about this agent is about to end, or has ended, and cannot be renewed here. Told once. */
  ending(statement: EndingStatement): void
}

export interface EndingStatement {
  readonly domain: string
  readonly until: Date
}

export interface ProofDesk {
  /**
   * Makes a proof for a place, and checks that it is bound to it. `show` names the issuer; empty for the only one.
   *
   * @throws {StaticError} `invalid_request` if there is no such proof, or what there is cannot be shown there
   */
  make(show: string, context: ProofContext): Promise<Uint8Array>
  /** Checks a proof that the member of the context has shown. `unknownSince` is that of its last verdict. */
  check(proof: Uint8Array, context: ProofContext, unknownSince?: number): Promise<Verdict>
  /** What a verdict of earlier is worth now. */
  standing(checked: CheckedProof): Verdict
  /** Fetches nothing more. */
  stop(): void
}
