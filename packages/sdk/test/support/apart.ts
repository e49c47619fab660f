/** A member of a stage that the test plays itself: it holds the real state of its group and says whatever it likes. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import { declarationBytes, type DeclarationFields, toHex } from '@static/protocol'
import { DeclarationSchema, SendCommitRequestSchema, SendMessageRequestSchema } from '@static/protocol/relay'
import { encodeFrame, type Frame } from '../../src/channel/sending/message-frame.ts'
import { packIdOf } from '../../src/channel/sending/pack.ts'
import { ed25519 } from '../../src/mls/index.ts'
import type { AgentId } from '../../src/ports/index.ts'
import { type Agent, engine } from '../mls/support.ts'
import type { Stage } from './stage.ts'

/** One such member. */
export class Apart {
  readonly stage: Stage
  readonly mls: Agent
  readonly agentId: AgentId
  counter = 0
  previous: Uint8Array = new Uint8Array(32)

  constructor(stage: Stage, name: string) {
    this.stage = stage
    this.mls = stage.apart.get(name) ?? assert.fail(`no ${name}`)
    this.agentId = toHex(this.mls.agentId)
  }

  /** An honest frame, but for what is changed in it. */
  frame(words: string, change: Partial<Frame> = {}): Uint8Array {
    return encodeFrame({
      messageId: packIdOf(randomBytes(16)),
      counter: this.counter + 1,
      previous: this.previous,
      seen: this.stage.position,
      payload: Buffer.from(words),
      ...change,
      kind: 'payload',
    })
  }

  /** Says a frame to all. */
  say(frame: Uint8Array): void {
    this.previous = sha256(frame)
    this.put(this.mls.send(frame), frame.slice(2, 18))
  }

  /** Puts any bytes into the log as its next message; with the relay's help, as that of another member. */
  put(
    ciphertext: Uint8Array,
    messageId: Uint8Array = new Uint8Array(randomBytes(16)),
    sender: AgentId = this.agentId,
  ): void {
    const { slot } = this.stage.position
    const request = create(SendMessageRequestSchema, { messageId, counter: BigInt(++this.counter), ciphertext })
    this.stage.append({ kind: 'message', sender, slot, request })
  }

  /** Bytes that claim to be so many generations ahead, and are not: its own ratchet stays. */
  claim(ahead: number): Uint8Array {
    const { leaf } = engine.facts(this.mls.group).own
    const row = this.mls.rows.get(leaf) ?? assert.fail()
    const claimed = { ...row, generation: row.generation + ahead, secret: new Uint8Array(32) }
    return engine.encrypt(this.mls.group, new Map([[leaf, claimed]]), this.frame('never')).ciphertext
  }

  /** Leaves by a notice for its present leaf. */
  leave(): void {
    const own = engine.facts(this.mls.group).members.find(({ agentId }) => toHex(agentId) === this.agentId)
    this.stage.leave({ agentId: this.agentId, key: this.mls.key }, [own?.encryptionKey ?? assert.fail()])
  }

  /** Puts any bytes into the log as a commit, with a declaration that it signs. Returns the slot. */
  commit(commit: Uint8Array, declared: Partial<DeclarationFields> = {}): number {
    const { channelId, position } = this.stage
    const slot = BigInt(position.slot)
    const messageId = new Uint8Array(randomBytes(16))
    const fields = { adds: [], removes: [], leaveNotices: [], vouches: [], ...declared }
    const place = { channelId, slot, messageId, commitHash: sha256(commit) }
    const declaration = create(DeclarationSchema, {
      adds: [...fields.adds],
      removes: [...fields.removes],
      leaveNotices: fields.leaveNotices.map((notice) => ({ ...notice, leafKeys: [...notice.leafKeys] })),
      vouches: [...fields.vouches],
      owner: fields.owner ?? new Uint8Array(),
      standby: fields.standby ?? new Uint8Array(),
      signature: ed25519.signer(this.mls.key)(declarationBytes(place, fields)),
    })
    const request = create(SendCommitRequestSchema, { channelId, slot, messageId, commit, declaration })
    this.stage.append({ kind: 'commit', sender: this.agentId, slot: position.slot, request })
    return position.slot
  }
}
