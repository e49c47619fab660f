/**
 * An agent without MLS that loses its connection at any moment: what it has not been answered it sends again under the
 * same id and counter, what it gets again it knows, and every entry goes into its own chain.
 */
import { create } from '@bufbuild/protobuf'
import {
  CellJoiner,
  chainNext,
  chainStart,
  commitBody,
  cutEnvelope,
  leaveBody,
  makeCell,
  REVISION,
  toHex,
} from '@static/protocol'
import { decodeEnvelope, encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import {
  AckRequestSchema,
  type ChannelState,
  type ClientMessage,
  ClientMessageSchema,
  type LeaveNotice,
  LeaveNoticeSchema,
  type ServerMessage,
  ServerMessageSchema,
} from '@static/protocol/relay'
import {
  type AgentKey,
  declare,
  leaveNotice,
  NO_TRAFFIC,
  openingOf,
  sha256,
  type WireStream,
} from '@static/testkit/agent'
import type { SimNetwork } from './sim-network.ts'

type Body = ServerMessage['body']
type Bodies<Case> = Extract<Body, { case: Case }>['value']
type Refusal = Bodies<'error'>

/** A message on its way into the log. */
interface Item {
  readonly messageId: Uint8Array
  readonly counter: bigint
  readonly control: boolean
  readonly ciphertext: Uint8Array
  sent: boolean
}

interface PendingCommit {
  readonly message: ClientMessage
  readonly slot: bigint
  sent: boolean
}

/** A stretch of the log that the agent has seen as a member. */
export interface Stay {
  /** The index of the entry that added it. */
  readonly base: number
  /** `kind sender id`, by index. */
  readonly entries: Map<number, string>
  /** What the relay said was gone. */
  readonly gaps: { readonly first: number; readonly last: number }[]
}

/** What others did that the owner must see to. */
export interface Chores {
  readonly left: Map<string, LeaveNotice>
  readonly out: Set<string>
}

const MAX_IN_FLIGHT = 4

export class SimAgent {
  readonly key: AgentKey
  readonly id: string
  readonly owner: boolean
  readonly stays: Stay[] = []
  /** Answered messages: id and index. */
  readonly answered: Map<string, number> = new Map()
  readonly problems: string[] = []
  readonly chores: Chores = { left: new Map(), out: new Set() }
  /** Messages that it has still to write. */
  wanted: number
  member = false
  last = 0
  head = 0n
  hash: Uint8Array
  readonly #net: SimNetwork
  readonly #jwt: string
  readonly #form: WireForm
  readonly #channelId: Uint8Array
  readonly #bodyHashes = new Map<string, Uint8Array>()
  readonly #hashes = new Map<number, string>()
  #outbox: Item[] = []
  #counter = 0n
  #commit: PendingCommit | undefined
  #leaving: LeaveNotice | undefined
  #acked = 0
  #notBefore = 0
  #stream: (WireStream & { break(): void }) | undefined
  #joiner = new CellJoiner(8 * 1024 * 1024)
  #waiting = new Map<bigint, (body: Body) => void>()
  #lastRequest = 0n
  #ready = false
  #resuming = false

  constructor(
    net: SimNetwork,
    key: AgentKey,
    channelId: Uint8Array,
    options: { jwt: string; owner: boolean; wanted: number },
  ) {
    this.#net = net
    this.key = key
    this.id = toHex(key.id)
    this.#channelId = channelId
    this.#jwt = options.jwt
    this.owner = options.owner
    this.wanted = options.wanted
    this.#form = net.chance(0.5) ? 'cbor' : 'protobuf'
    this.hash = chainStart(sha256, channelId)
  }

  get stay(): Stay | undefined {
    return this.stays.at(-1)
  }

  /** Nothing is left to do. */
  get done(): boolean {
    const quiet = this.#outbox.length === 0 && !this.#commit && !this.#leaving && this.#waiting.size === 0
    const chores = this.chores.left.size === 0 && this.chores.out.size === 0
    return this.#ready && this.member && quiet && chores && this.#acked === this.last && this.wanted === 0
  }

  /** Loses the connection, in the middle of whatever it is. */
  lose(): void {
    this.#stream?.break()
  }

  /** Does something, if there is anything to do. */
  act(): void {
    if (!this.#stream) return this.#connect()
    if (!this.#ready) return
    if (this.#net.now < this.#notBefore) return
    if (!this.member) {
      // The Welcome may have come before the connection was lost.
      if (this.#net.chance(0.1)) this.#resume()
      return
    }
    if (this.wanted > 0 && this.#outbox.length < 2 * MAX_IN_FLIGHT && this.#net.chance(0.5)) this.#compose()
    this.#pump()
    this.#sendCommit()
    if (this.#leaving && this.#waiting.size === 0) this.#sendLeave(this.#leaving)
    if (this.#acked < this.last && this.#net.chance(0.3)) this.#ack()
    if (this.owner) this.#seeToChores()
  }

  /** Makes a commit that changes nothing, if none is under way. */
  rekey(): void {
    if (this.member && !this.#commit && this.#ready) this.#propose([], [], [])
  }

  /** The owner puts a member out. */
  remove(agent: SimAgent): void {
    if (this.member && !this.#commit && this.#ready && this.owner) this.#propose([], [agent.key.id], [])
  }

  leave(): void {
    if (!this.member || this.owner || this.#leaving || !this.#ready) return
    this.#leaving = this.#notice()
  }

  /** The owner's first step. */
  create(): void {
    this.member = true
    this.stays.push({ base: 0, entries: new Map(), gaps: [] })
    this.#founding = true
  }

  #founding = false

  // ---- Connection ----

  #connect(): void {
    const peer = {
      transport: this.#form === 'cbor' ? 'quic' : 'grpc',
      form: this.#form,
      address: '192.0.2.1',
      proxy: false,
    } as const
    this.#joiner = new CellJoiner(8 * 1024 * 1024)
    this.#stream = this.#net.open(peer, { data: (bytes) => this.#receive(bytes), closed: () => this.#closed() })
    this.#request({ case: 'getChallenge', value: { revision: REVISION } }, (body) => {
      if (body.case === 'getChallenge') this.#open(body.value)
    })
  }

  #open(challenge: Bodies<'getChallenge'>): void {
    const opening = { agentNonce: this.#net.bytes(32), jwt: this.#jwt, traffic: NO_TRAFFIC }
    const value = openingOf(this.key, 'session', challenge, opening)
    this.#request({ case: 'openSession', value }, (body) => {
      if (body.case !== 'openSession') return
      if (this.#founding) this.#found()
      else this.#resume()
    })
  }

  #found(): void {
    const value = { name: 'acme/x/y', channelId: this.#channelId, welcome: new Uint8Array(64) }
    this.#request({ case: 'createChannel', value }, (body) => {
      if (body.case === 'createChannel') {
        this.#founding = false
        this.#resume()
      } else this.lose()
    })
  }

  #resume(): void {
    if (this.#resuming) return
    this.#resuming = true
    this.#request({ case: 'resume', value: { channelIds: [this.#channelId] } }, (body) => {
      this.#resuming = false
      if (body.case !== 'resume') return this.lose()
      const [state] = body.value.channels
      if (state) this.#resumed(state)
      this.#ready = true
    })
  }

  #resumed(state: ChannelState): void {
    const { error, cursor, lastCounter } = state
    if (error || !this.member) {
      if (error && this.member) this.#ended()
      return
    }
    const known = this.#hashes.get(Number(cursor?.index))
    const told = toHex(cursor?.hash ?? new Uint8Array())
    if (known !== undefined && known !== told) this.#problem(`the cursor's hash at ${cursor?.index} is not the chain's`)
    const written = this.#counter
    // A stay that has ended meanwhile, and another one that has begun, are told by what follows.
    if (lastCounter > written && Number(cursor?.index) >= (this.stay?.base ?? 0)) {
      this.#problem(`the relay counts ${lastCounter} of ${written}`)
    }
  }

  #closed(): void {
    this.#stream = undefined
    this.#ready = false
    this.#resuming = false
    this.#waiting.clear()
    for (const item of this.#outbox) item.sent = false
    if (this.#commit) this.#commit.sent = false
  }

  #request(body: object, take: (body: Body) => void): void {
    const message = create(ClientMessageSchema, { body: body as never })
    this.#sendMessage(message, take)
  }

  #sendMessage(message: ClientMessage, take: (body: Body) => void): void {
    message.requestId = ++this.#lastRequest
    this.#waiting.set(message.requestId, take)
    this.#stream?.write(cutEnvelope(encodeEnvelope(this.#form, ClientMessageSchema, message)))
  }

  #receive(bytes: Uint8Array): void {
    const stream = this.#stream
    this.#joiner.push(bytes, ({ type, payload }) => {
      // It has closed the stream meanwhile.
      if (this.#stream !== stream) return
      if (type === 'ping') this.#stream?.write(makeCell('pong', payload))
      if (type !== 'envelope') return
      const message = decodeEnvelope(this.#form, ServerMessageSchema, payload.slice(), payload.length)
      const waiting = this.#waiting.get(message.requestId)
      this.#waiting.delete(message.requestId)
      if (waiting) waiting(message.body)
      else this.#pushed(message.body)
    })
  }

  // ---- Log ----

  #pushed(body: Body): void {
    switch (body.case) {
      case 'deliverMessage': {
        const { index, sender, messageId, ciphertext, control } = body.value
        const own = toHex(sender) === this.id
        if (own !== (ciphertext.length === 0)) this.#problem(`entry ${index} has the wrong body`)
        this.#enter(
          index,
          'message',
          sender,
          messageId,
          () => this.#bodyHash(own, messageId, ciphertext),
          control ? ' c' : '',
        )
        if (own) this.#outbox = this.#outbox.filter((item) => toHex(item.messageId) !== toHex(messageId))
        return
      }
      case 'deliverCommit': {
        const { index, sender, messageId, commit, declaration, slot } = body.value
        const own = toHex(sender) === this.id
        const bytes = declaration ? commitBody(commit, declaration) : new Uint8Array()
        const fresh = this.#enter(
          index,
          'commit',
          sender,
          messageId,
          () => this.#bodyHash(own, messageId, bytes),
          ` ${slot}`,
        )
        if (!fresh) return
        if (slot !== this.head) this.#problem(`the commit at ${index} takes slot ${slot} of ${this.head}`)
        this.head = slot + 1n
        const value = this.#commit?.message.body
        if (own && value?.case === 'sendCommit' && toHex(value.value.messageId) === toHex(messageId)) this.#committed()
        // Another one has the slot: ours is lost.
        else if (this.#commit && this.#commit.slot < this.head) this.#commit = undefined
        if (this.#leaving) this.#leaving = this.#notice()
        if (declaration?.removes.some((id) => toHex(id) === this.id)) this.#ended()
        return
      }
      case 'deliverLeave': {
        const { index, sender, notice } = body.value
        if (!notice) return this.#problem('a Leave without a notice')
        if (!this.#enter(index, 'leave', sender, new Uint8Array(), () => sha256(leaveBody(notice)), '')) return
        if (toHex(sender) === this.id) this.#ended()
        else if (this.owner) this.chores.left.set(toHex(sender), notice)
        return
      }
      case 'deliverWelcome':
        return this.#welcomed(body.value)
      case 'gap': {
        const { firstIndex, position } = body.value
        const end = Number(position?.index)
        if (firstIndex > this.last + 1) this.#problem(`a gap from ${firstIndex} after ${this.last}`)
        // It begins after the cursor; the agent may be further.
        if (!this.member || end <= this.last) return
        this.stay?.gaps.push({ first: this.last + 1, last: end })
        this.last = end
        this.hash = position?.hash ?? this.hash
        this.head = position?.slot ?? this.head
        this.#hashes.set(end, toHex(this.hash))
        if (this.#commit && this.#commit.slot < this.head) this.#commit = undefined
        if (this.#leaving) this.#leaving = this.#notice()
        if (this.owner) this.#rethink()
        return
      }
      default:
    }
  }

  /** Puts an entry into the chain; false when it is known. */
  #enter(
    index: bigint,
    kind: 'message' | 'commit' | 'leave',
    sender: Uint8Array,
    messageId: Uint8Array,
    body: () => Uint8Array,
    more: string,
  ): boolean {
    const at = Number(index)
    const text = `${kind} ${toHex(sender)} ${toHex(messageId)}${more}`
    // Of an earlier stay, when this one began before it was fetched.
    if (!this.member || !this.stay || at <= this.stay.base) return false
    const known = this.stay.entries.get(at)
    if (known !== undefined && known !== text) this.#problem(`entry ${at} was ${known}, now it is ${text}`)
    if (at <= this.last) return false
    if (at !== this.last + 1) {
      this.#problem(`entry ${at} comes after ${this.last}`)
      return false
    }
    this.stay.entries.set(at, text)
    this.last = at
    this.hash = chainNext(sha256, this.hash, { kind, sender, messageId, bodyHash: body() })
    this.#hashes.set(at, toHex(this.hash))
    return true
  }

  #bodyHash(own: boolean, messageId: Uint8Array, bytes: Uint8Array): Uint8Array {
    const known = own ? this.#bodyHashes.get(toHex(messageId)) : sha256(bytes)
    if (!known) this.#problem('an entry of its own that it does not know')
    return known ?? new Uint8Array(32)
  }

  #welcomed({ position, slot }: Bodies<'deliverWelcome'>): void {
    const base = Number(position?.index)
    const ack = (): void => this.#ackAt(base)
    // Told again, because the acknowledgement was lost.
    if (base <= (this.stay?.base ?? -1)) return this.member ? ack() : undefined
    this.member = true
    this.stays.push({ base, entries: new Map(), gaps: [] })
    this.last = base
    this.#acked = base
    this.hash = position?.hash ?? this.hash
    this.head = slot + 1n
    this.#hashes.set(base, toHex(this.hash))
    this.#outbox = []
    this.#counter = 0n
    this.#commit = undefined
    this.#leaving = undefined
    ack()
    this.#resume()
  }

  /** The membership is over: what was not accepted will not be. */
  #ended(): void {
    if (!this.member) return
    this.member = false
    this.wanted += this.#outbox.length
    this.#outbox = []
    this.#commit = undefined
    this.#leaving = undefined
    if (this.last > this.#acked) this.#ack()
  }

  #ack(): void {
    this.#acked = this.last
    this.#ackAt(this.last)
  }

  #ackAt(index: number): void {
    const ack = create(AckRequestSchema, { positions: [{ channelId: this.#channelId, index: BigInt(index) }] })
    this.#stream?.write(makeCell('ack', encodeEnvelope(this.#form, AckRequestSchema, ack)))
  }

  // ---- Messages ----

  #compose(): void {
    this.wanted--
    const item = {
      messageId: this.#net.bytes(16),
      counter: ++this.#counter,
      control: this.#net.chance(0.1),
      ciphertext: this.#net.bytes(1 + this.#net.below(40)),
      sent: false,
    }
    const body = this.#net.chance(0.1) ? { ...item, ciphertext: new Uint8Array(3000).fill(this.#net.below(256)) } : item
    this.#bodyHashes.set(toHex(body.messageId), sha256(body.ciphertext))
    this.#outbox.push(body)
  }

  /** Sends what is not under way, in order. */
  #pump(): void {
    let flying = this.#outbox.filter(({ sent }) => sent).length
    for (const item of this.#outbox) {
      if (item.sent) continue
      if (flying >= MAX_IN_FLIGHT) return
      flying++
      item.sent = true
      const { messageId, counter, control, ciphertext } = item
      const value = { channelId: this.#channelId, slot: this.head, messageId, counter, control, ciphertext }
      this.#request({ case: 'sendMessage', value }, (body) => this.#sent(item, body))
    }
  }

  #sent(item: Item, body: Body): void {
    if (body.case === 'sendMessage') {
      const id = toHex(item.messageId)
      const index = Number(body.value.index)
      const before = this.answered.get(id)
      if (before !== undefined && before !== index) this.#problem(`message ${id} was ${before}, now it is ${index}`)
      this.answered.set(id, index)
      this.#outbox = this.#outbox.filter((one) => one !== item)
      return
    }
    item.sent = false
    if (body.case === 'error')
      this.#refused(body.value, ['epoch_mismatch', 'out_of_order', 'queue_full', 'removed', 'not_found'])
  }

  #refused(refusal: Refusal, expected: readonly string[]): void {
    const { code, retryAfterMs = 0 } = refusal
    this.#notBefore = Math.max(this.#notBefore, this.#net.now + retryAfterMs)
    if (code === 'unavailable' || code === 'rate_limited') return
    if (!expected.includes(code)) this.#problem(`refused with ${code}: ${refusal.message}`)
  }

  // ---- Commits ----

  #propose(adds: Uint8Array[], removes: Uint8Array[], leaveNotices: LeaveNotice[]): void {
    const messageId = this.#net.bytes(16)
    const commit = this.#net.bytes(30)
    const slot = this.head
    const place = { channelId: this.#channelId, slot, messageId, commit }
    const declaration = declare(this.key, place, { adds, removes, leaveNotices })
    this.#bodyHashes.set(toHex(messageId), sha256(commitBody(commit, declaration)))
    const welcomes = adds.map((agentId) => ({ agentId, welcome: this.#net.bytes(20) }))
    const value = { channelId: this.#channelId, slot, messageId, commit, declaration, welcomes }
    const message = create(ClientMessageSchema, { body: { case: 'sendCommit', value } })
    this.#commit = { message, slot, sent: false }
  }

  #sendCommit(): void {
    const pending = this.#commit
    if (!pending || pending.sent) return
    pending.sent = true
    this.#sendMessage(pending.message, (body) => {
      if (this.#commit !== pending) return
      if (body.case === 'sendCommit') return this.#committed()
      pending.sent = false
      if (body.case !== 'error') return
      // It lost its slot, or what it would do has been done.
      if (body.value.code !== 'unavailable' && body.value.code !== 'rate_limited') this.#commit = undefined
      if (body.value.code === 'invalid_request') this.#rethink()
      this.#refused(body.value, ['epoch_mismatch', 'invalid_request', 'queue_full', 'removed', 'not_found'])
    })
  }

  /** The owner has missed what became of its commits and who has left: it looks at the members anew. */
  #rethink(): void {
    const { left, out } = this.chores
    left.clear()
    for (const entry of this.#net.truth) {
      if (entry?.kind === 'leave')
        left.set(entry.sender, create(LeaveNoticeSchema, { ...entry.notice, leafKeys: [...entry.notice.leafKeys] }))
      if (entry?.kind !== 'commit') continue
      for (const id of entry.declaration.removes.map(toHex)) {
        left.delete(id)
        out.add(id)
      }
      for (const id of entry.declaration.adds.map(toHex)) {
        out.delete(id)
      }
    }
    for (const id of left.keys()) out.delete(id)
  }

  /** The commit is in the log: what it was made for is done. */
  #committed(): void {
    const body = this.#commit?.message.body
    this.#commit = undefined
    if (body?.case !== 'sendCommit') return
    for (const id of body.value.declaration?.removes ?? []) {
      this.chores.left.delete(toHex(id))
      this.chores.out.add(toHex(id))
    }
    for (const id of body.value.declaration?.adds ?? []) this.chores.out.delete(toHex(id))
  }

  /** Removes who has left, and adds again who is out; sometimes in one commit. */
  #seeToChores(): void {
    if (this.#commit || this.#net.chance(0.7)) return
    const [leaver] = this.chores.left
    if (leaver) {
      const id = Buffer.from(leaver[0], 'hex')
      return this.#propose(this.#net.chance(0.3) ? [id] : [], [id], [leaver[1]])
    }
    const [out] = this.chores.out
    if (out !== undefined) this.#propose([Buffer.from(out, 'hex')], [], [])
  }

  #notice(): LeaveNotice {
    return leaveNotice(this.key, this.#channelId, this.head)
  }

  #sendLeave(notice: LeaveNotice): void {
    this.#request({ case: 'leave', value: { channelId: this.#channelId, notice } }, (body) => {
      // It has left when its notice has come by the log.
      if (body.case === 'error') this.#refused(body.value, ['epoch_mismatch', 'not_found', 'removed'])
    })
  }

  #problem(text: string): void {
    this.problems.push(`agent ${this.id.slice(0, 6)}: ${text}`)
  }
}
