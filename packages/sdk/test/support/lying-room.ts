/**
 * A channel at the lying relay. Every member has a view of its own: its own list of entries with its own indexes and its
 * own chain. What the relay shows to whom goes through that member's lie; without one the views are all the same.
 */
import { sha256 } from '#platform/crypto'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { chainNext, chainStart, commitBody, fromHex, leaveBody, toHex } from '@static/protocol'
import {
  ChannelStateSchema,
  type ChannelState,
  DeclarationSchema,
  type DeliverWelcome,
  DeliverCommitSchema,
  DeliverLeaveSchema,
  DeliverMessageSchema,
  DeliverWelcomeSchema,
  LeaveNoticeSchema,
  type SendCommitRequest,
  type SendMessageRequest,
} from '@static/protocol/relay'
import type { AgentId, PositionRecord, ServerBody } from '../../src/ports/index.ts'

/** An entry of a log. */
export type Entry = Extract<ServerBody, { readonly case: 'deliverMessage' | 'deliverCommit' | 'deliverLeave' }>
/** What a member is shown in place of an entry: nothing, others, more. */
export type Lie = (entry: Entry, view: View) => readonly Entry[]

/** What one member is shown of a channel. */
export class View {
  readonly entries: Entry[] = []
  /** Before the first entry, then after each. */
  readonly positions: PositionRecord[]
  /** The last index that the member has acknowledged, and that it was given. */
  cursor: number
  delivered: number
  /** It has asked for its entries in this session. */
  live = false
  /** Nothing more is shown. */
  ended = false
  lie: Lie | undefined
  /** The index of an entry that is never delivered. */
  hole: number | undefined

  constructor(start: PositionRecord) {
    this.positions = [start]
    this.cursor = start.index
    this.delivered = start.index
  }

  get position(): PositionRecord {
    return this.positions.at(-1)!
  }

  /** The place after the entry of an index. */
  at(index: number): PositionRecord {
    return this.positions[index - this.positions[0]!.index] ?? this.position
  }

  /** The entry of an index. */
  entry(index: number): Entry | undefined {
    return this.entries[index - this.positions[0]!.index - 1]
  }

  /** Goes on at another place, as after a gap. */
  skip(position: PositionRecord): void {
    while (this.position.index + 1 < position.index) this.positions.push(position)
    this.positions.push(position)
    this.entries.length = this.positions.length - 1
    this.delivered = position.index
  }

  /** Puts entries at the end, as if they had just come. */
  show(...entries: readonly Entry[]): void {
    for (const entry of entries) {
      const { index, hash, slot } = this.position
      this.entries.push(numbered(entry, index + 1))
      this.positions.push({
        index: index + 1,
        hash: chainNext(sha256, hash, linkOf(entry)),
        slot: entry.case === 'deliverCommit' ? slot + 1 : slot,
      })
    }
  }
}

/** A channel. */
export class Room {
  readonly channelId: Uint8Array
  readonly name: string
  owner: AgentId
  readonly views: Map<AgentId, View> = new Map()
  /** What was sent, in order, whoever is shown it. */
  readonly log: Entry[] = []
  /** By message id. */
  readonly answers: Map<string, ServerBody> = new Map()
  readonly counters: Map<AgentId, number> = new Map()
  /** `agent slot` of each vote against a commit. */
  readonly votes: string[] = []

  constructor(channelId: Uint8Array, name: string, owner: AgentId) {
    this.channelId = channelId
    this.name = name
    this.owner = owner
    this.views.set(owner, new View({ index: 0, hash: chainStart(sha256, channelId), slot: 0 }))
  }

  /** The view of an agent that was ever a member. */
  view(agent: AgentId): View {
    const view = this.views.get(agent)
    if (!view) throw new Error(`${agent} was never in ${this.name}`)
    return view
  }

  /** A message, which all who are there are shown. */
  message(sender: AgentId, request: Omit<SendMessageRequest, '$typeName' | 'channelId'>): number {
    const { slot, messageId, counter, control, ciphertext } = request
    const value = create(DeliverMessageSchema, {
      channelId: this.channelId,
      sender: fromHex(sender),
      slot,
      messageId,
      counter,
      control,
      ciphertext,
      acceptedAtMs: BigInt(Date.now()),
    })
    this.counters.set(sender, Number(counter))
    return this.append({ case: 'deliverMessage', value })
  }

  /** A commit, and what it does to the roster; the Welcomes to deliver. */
  commit(sender: AgentId, request: Omit<SendCommitRequest, '$typeName' | 'channelId'>): DeliverWelcome[] {
    const { slot, messageId, commit, welcomes, groupInfo, declaration = create(DeclarationSchema) } = request
    const place = { channelId: this.channelId, sender: fromHex(sender), slot, messageId }
    const value = create(DeliverCommitSchema, { ...place, commit, declaration, acceptedAtMs: BigInt(Date.now()) })
    this.append({ case: 'deliverCommit', value })
    if (declaration.owner.length > 0) this.owner = toHex(declaration.owner)
    for (const agent of declaration.removes.map(toHex)) this.#end(agent)
    const { position } = this.view(sender)
    for (const agent of declaration.adds.map(toHex)) {
      this.views.set(agent, new View(position))
      this.counters.delete(agent)
    }
    const { channelId, name } = this
    return welcomes.map((welcome) =>
      create(DeliverWelcomeSchema, {
        channelId,
        name,
        slot,
        sender: fromHex(sender),
        owner: fromHex(this.owner),
        welcome: { ...welcome, welcome: Buffer.concat([welcome.welcome, groupInfo]) },
        position: wired(position),
      }),
    )
  }

  /** A notice that an agent has left. */
  leave(sender: AgentId, notice: MessageInitShape<typeof LeaveNoticeSchema>): number {
    const value = create(DeliverLeaveSchema, {
      channelId: this.channelId,
      sender: fromHex(sender),
      notice: create(LeaveNoticeSchema, notice),
    })
    const index = this.append({ case: 'deliverLeave', value })
    this.#end(sender)
    return index
  }

  /** Shows an entry to everybody, each by its lie; returns its index for the sender. */
  append(entry: Entry): number {
    this.log.push(entry)
    for (const view of this.views.values()) {
      if (!view.ended) view.show(...(view.lie?.(entry, view) ?? [entry]))
    }
    return this.view(toHex(entry.value.sender)).position.index
  }

  /** Where an agent stands. */
  state(agent: AgentId): ChannelState {
    const { channelId, name, owner } = this
    const view = this.views.get(agent)
    if (!view || view.ended) {
      return create(ChannelStateSchema, { channelId, error: { code: view ? 'removed' : 'not_found' } })
    }
    const { position, cursor } = view
    return create(ChannelStateSchema, {
      channelId,
      name,
      owner: fromHex(owner),
      head: BigInt(position.slot),
      lastIndex: BigInt(position.index),
      addedIndex: BigInt(view.positions[0]!.index),
      lastCounter: BigInt(this.counters.get(agent) ?? 0),
      cursor: wired(view.at(cursor)),
      guestLimit: 1000,
    })
  }

  #end(agent: AgentId): void {
    const view = this.views.get(agent)
    if (view) view.ended = true
  }
}

/** A place, as the relay writes it. */
export function wired({ index, hash, slot }: PositionRecord): { index: bigint; hash: Uint8Array; slot: bigint } {
  return { index: BigInt(index), hash, slot: BigInt(slot) }
}

/** An entry as its own sender gets it. */
export function withoutBody(entry: Entry): Entry {
  switch (entry.case) {
    case 'deliverMessage':
      return { ...entry, value: { ...entry.value, ciphertext: new Uint8Array() } }
    case 'deliverCommit': {
      const { declaration: _, ...value } = entry.value
      return { ...entry, value: { ...value, commit: new Uint8Array() } }
    }
    case 'deliverLeave':
      return entry
  }
}

function numbered(entry: Entry, index: number): Entry {
  return { ...entry, value: { ...entry.value, index: BigInt(index) } } as Entry
}

function linkOf(entry: Entry): Parameters<typeof chainNext>[2] {
  const { sender } = entry.value
  switch (entry.case) {
    case 'deliverMessage': {
      const { messageId, ciphertext } = entry.value
      return { kind: 'message', sender, messageId, bodyHash: sha256(ciphertext) }
    }
    case 'deliverCommit': {
      const { messageId, commit, declaration = create(DeclarationSchema) } = entry.value
      return { kind: 'commit', sender, messageId, bodyHash: sha256(commitBody(commit, declaration)) }
    }
    case 'deliverLeave': {
      const notice = entry.value.notice ?? create(LeaveNoticeSchema)
      return { kind: 'leave', sender, messageId: new Uint8Array(), bodyHash: sha256(leaveBody(notice)) }
    }
  }
}
