/** A member that works with the lying relay: it holds the real state of its group and says whatever it likes. */
import { randomBytes } from 'node:crypto'
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import { ed25519 } from '@static/node/ed25519'
import { declarationBytes, type DeclarationFields, fromHex, toHex } from '@static/protocol'
import { DeclarationSchema, DeliverCommitSchema } from '@static/protocol/relay'
import type { Channel } from '../../src/public/channel.ts'
import { encodeFrame, type Frame, type FrameKind } from '../../src/channel/sending/message-frame.ts'
import { packIdOf } from '../../src/channel/sending/pack.ts'
import type { Opened } from '../../src/mls/ratchet.ts'
import type { AgentId } from '../../src/ports/index.ts'
import { resealed } from '../mls/forgery.ts'
import { Agent as MlsAgent, engine } from '../mls/support.ts'
import type { LyingRelay } from './lying-relay.ts'
import type { Room } from './lying-room.ts'

/** A malicious member of one channel. */
export class Insider {
  readonly mls: MlsAgent
  readonly agentId: AgentId
  readonly relay: LyingRelay
  readonly room: Room
  /** Of its last message, as an honest member would have them. */
  counter = 0
  previous: Uint8Array = new Uint8Array(32)
  #followed: number
  readonly #opened = new Map<string, Opened>()

  private constructor(mls: MlsAgent, relay: LyingRelay, room: Room) {
    this.mls = mls
    this.agentId = toHex(mls.agentId)
    this.relay = relay
    this.room = room
    this.#followed = room.log.length
  }

  /** Is added to a channel by one of its members. */
  static async join(relay: LyingRelay, channel: Channel, name = 'mallory'): Promise<Insider> {
    const mls = new MlsAgent(name)
    const own = await mls.keyPackage()
    const room = relay.room(channel.id)
    const before = room.log.length
    const welcome = await channel.addMember(own.keyPackage)
    await mls.join(welcome, own)
    const insider = new Insider(mls, relay, room)
    // After the commit that added it, which another one may have followed.
    insider.#followed = before + 1
    await insider.follow()
    return insider
  }

  /** Follows the commits of the others, and moves on in their ratchets. */
  async follow(): Promise<void> {
    for (; this.#followed < this.room.log.length; this.#followed++) {
      const entry = this.room.log[this.#followed]!
      if (toHex(entry.value.sender) === this.agentId) continue
      if (entry.case === 'deliverMessage') this.opens(entry.value.ciphertext)
      if (entry.case !== 'deliverCommit') continue
      const { commit, declaration = create(DeclarationSchema), sender } = entry.value
      await this.mls.take({ agentId: sender } as MlsAgent, { commit, declaration })
    }
  }

  /** Whether it can open a message with what it has. */
  opens(ciphertext: Uint8Array): boolean {
    try {
      this.#opened.set(toHex(sha256(ciphertext)), this.mls.open(ciphertext))
      return true
    } catch {
      return false
    }
  }

  /** An honest frame, but for what is changed in it. */
  frame(words: string, change: Partial<Frame> & { readonly kind?: FrameKind } = {}): Uint8Array {
    const { position } = this.room.view(this.agentId)
    return encodeFrame({
      kind: 'payload',
      messageId: packIdOf(randomBytes(16)),
      counter: this.counter + 1,
      previous: this.previous,
      seen: position,
      payload: Buffer.from(words),
      ...change,
    })
  }

  /** Says a frame to all. */
  say(frame: Uint8Array): void {
    this.counter++
    this.previous = sha256(frame)
    this.put(this.mls.send(frame), { messageId: frame.subarray(2, 18) })
  }

  /** Puts any bytes into the log as a message, of itself or of another. */
  put(
    ciphertext: Uint8Array,
    change: { readonly sender?: AgentId; readonly messageId?: Uint8Array; readonly counter?: number } = {},
  ): void {
    const { sender = this.agentId, messageId = new Uint8Array(randomBytes(16)), counter = this.counter } = change
    const slot = BigInt(this.room.view(sender).position.slot)
    this.room.message(sender, { slot, messageId, counter: BigInt(counter), control: false, ciphertext })
    this.relay.deliver()
  }

  /** Puts any bytes into the log as a commit, with a declaration that it signs; `as` whom the relay names. */
  commit(commit: Uint8Array, declared: Partial<DeclarationFields> = {}, as: AgentId = this.agentId): void {
    const messageId = new Uint8Array(randomBytes(16))
    const { channelId } = this.room
    const slot = BigInt(this.room.view(this.agentId).position.slot)
    const fields = { adds: [], removes: [], leaveNotices: [], vouches: [], ...declared }
    const place = { channelId, slot, messageId, commitHash: sha256(commit) }
    const signature = ed25519.signer(this.mls.key)(declarationBytes(place, fields))
    const declaration = create(DeclarationSchema, {
      adds: [...fields.adds],
      removes: [...fields.removes],
      leaveNotices: fields.leaveNotices.map((notice) => ({ ...notice, leafKeys: [...notice.leafKeys] })),
      vouches: [...fields.vouches],
      owner: fields.owner ?? new Uint8Array(),
      standby: fields.standby ?? new Uint8Array(),
      signature,
    })
    // Whatever it declares, the relay goes on with everybody.
    this.room.append({
      case: 'deliverCommit',
      value: create(DeliverCommitSchema, { channelId, sender: fromHex(as), slot, messageId, commit, declaration }),
    })
    this.relay.deliver()
  }

  /**
   * What another member has signed, encrypted once more under that member's next key: MLS signs neither the generation
   * nor the key, and every member can derive the keys of all (RFC 9750, insider replay).
   */
  reseal(ciphertext: Uint8Array): Uint8Array {
    const opened = this.#opened.get(toHex(sha256(ciphertext)))
    if (!opened) throw new Error('The message was not opened.')
    const sealed = resealed(this.mls, opened, ciphertext)!
    this.mls.rows.set(opened.leaf, sealed.row)
    return sealed.ciphertext
  }

  /** What it knows of the group. */
  get members(): AgentId[] {
    return engine.facts(this.mls.group).members.map(({ agentId }) => toHex(agentId))
  }
}
