/**
 * A malicious member: it holds the real keys of its group, follows the log like everybody else, and sends whatever it
 * likes. All its choices come from one seed.
 */
import assert from 'node:assert/strict'
import { sha256 } from '#platform/crypto'
import { type CiphersuiteImpl, type ClientState, createCommit, encodeMlsMessage, type Proposal } from 'ts-mls'
import type { Commit } from 'ts-mls/commit.js'
import { fromHex, toHex } from '@static/protocol'
import type { Below } from '@static/testkit/random'
import { parsePrivateMessage } from '../../src/mls/framing.ts'
import type { Opened } from '../../src/mls/ratchet.ts'
import { adopt, inside } from '../../src/mls/ts-mls/state.ts'
import type { AgentId } from '../../src/ports/index.ts'
import { crypto } from '../mls/attacker.ts'
import { reshaped, resealed } from '../mls/forgery.ts'
import { type Agent, engine } from '../mls/support.ts'
import { Apart } from '../support/apart.ts'
import type { Stage } from '../support/stage.ts'

const { provider } = crypto

/** The attacker of one life. */
export class Attacker extends Apart {
  readonly below: Below
  #followed = 0
  /** Messages of others that it has opened, by the hash of their ciphertexts. */
  readonly #opened = new Map<string, Opened>()

  constructor(stage: Stage, name: string, below: Below) {
    super(stage, name)
    this.below = below
  }

  /** One of these. */
  pick<Item>(items: readonly Item[]): Item {
    assert.ok(items.length > 0, 'nothing to pick from')
    return items[this.below(items.length)] as Item
  }

  /** Bytes that mean nothing. */
  noise(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.below(256))
  }

  /** A size that is often at a limit. */
  size(most: number): number {
    return this.pick([0, 1, this.below(200), this.below(most), most])
  }

  /** The same bytes, damaged in one of many ways. */
  spoil(bytes: Uint8Array): Uint8Array {
    const at = this.below(bytes.length)
    switch (this.below(4)) {
      case 0:
        return bytes.slice(0, at)
      case 1:
        return Buffer.concat([bytes, this.noise(1 + this.below(300))])
      case 2:
        return Buffer.concat([bytes.subarray(0, at), this.noise(1 + this.below(16)), bytes.subarray(at)])
      default:
        return bytes.with(at, (bytes[at] ?? 0) ^ (1 << this.below(8)))
    }
  }

  /** Follows the commits of the others, and their ratchets. */
  async follow(): Promise<void> {
    const { log } = this.stage
    for (; this.#followed < log.length; this.#followed++) {
      const entry = log[this.#followed]
      if (!entry || entry.sender === this.agentId || entry.kind === 'leave') continue
      if (entry.kind === 'message') this.#read(entry.request.ciphertext)
      else {
        const { commit, declaration } = entry.request
        const sender = { agentId: fromHex(entry.sender) } as unknown as Agent
        await this.mls.take(sender, { commit, declaration: declaration ?? assert.fail('no declaration') })
      }
    }
  }

  #read(ciphertext: Uint8Array): void {
    try {
      this.#opened.set(toHex(sha256(ciphertext)), this.mls.open(ciphertext))
    } catch {
      // Of another epoch, or sent as another member's.
    }
  }

  /** A commit by the library alone, which does not know our rules, and the state after it. */
  async make(
    proposals: Proposal[],
    change: { readonly state?: Partial<ClientState>; readonly provider?: CiphersuiteImpl } = {},
  ): Promise<{ readonly commit: Uint8Array; readonly next: ClientState }> {
    const state = { ...inside(this.mls.group).state, ...change.state }
    const made = await createCommit(
      { state, cipherSuite: change.provider ?? provider, pskIndex: { findPsk: () => new Uint8Array(32) } },
      { extraProposals: proposals, ratchetTreeExtension: true },
    )
    return { commit: encodeMlsMessage(made.commit), next: made.newState }
  }

  /** Goes on in the epoch of its own commit. */
  enter(next: ClientState): void {
    this.mls.enter(adopt(crypto, next, this.mls.key))
  }

  /** A commit without changes, with other content, sealed with the right keys but not signed. */
  async reshape(change: (commit: Commit) => Commit): Promise<Uint8Array> {
    return await reshaped(this.mls, (await this.make([])).commit, change)
  }

  /** The same bytes with another epoch on them. */
  numbered(bytes: Uint8Array, epoch: bigint): Uint8Array {
    const numbered = Buffer.from(bytes)
    numbered.writeBigUInt64BE(epoch, 4 + 1 + engine.facts(this.mls.group).groupId.length)
    return numbered
  }

  /** Another member's message of this epoch that it has opened, encrypted once more under that member's next key. */
  reseal(): { readonly sender: AgentId; readonly messageId: Uint8Array; readonly ciphertext: Uint8Array } | undefined {
    const { groupContext } = inside(this.mls.group).state
    for (const entry of this.stage.log.toReversed()) {
      if (entry.kind !== 'message') continue
      const opened = this.#opened.get(toHex(sha256(entry.request.ciphertext)))
      const parts = parsePrivateMessage(entry.request.ciphertext)
      if (!opened || parts?.epoch !== groupContext.epoch) continue
      const sealed = resealed(this.mls, opened, entry.request.ciphertext)
      if (!sealed) continue
      const { ciphertext } = sealed
      return { sender: entry.sender, messageId: entry.request.messageId, ciphertext }
    }
    return undefined
  }
}
