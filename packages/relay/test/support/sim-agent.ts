/**
 * An agent without MLS that loses its connection at any moment: what it has not been answered it sends again under the
 * same id and counter, what it gets again it knows, and every entry goes into its own chain. It believes what it is told:
 * what the relay does not tell it, or tells it in the wrong order, it does not find out by asking.
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

interface EntryFields {
  readonly kind: 'message' | 'commit' | 'leave'
  readonly sender: Uint8Array
  readonly messageId: Uint8Array
}

/** A membership, as the agent has seen it. */
export interface Stay {
  /** The index of the entry that added it. */
  readonly base: number
  /** `kind sender id`, by index. */
  readonly entries: Map<number, string>
  /** What the relay said was gone. */
  readonly gaps: { readonly first: number; readonly last: number }[]
  /** The chain's hashes, by index. */
  readonly hashes: Map<number, string>
  /** Where the agent is in the log. */
  last: number
  head: bigint
  hash: Uint8Array
  acked: number
  /** Of its last message. */
  counter: bigint
  isOver: boolean
  /** Whether its end was undone, and whether its counter is then not the relay's. */
  isReturned: boolean
  isAdrift: boolean
}

/** Options of an agent. */
export interface SimAgentOptions {
  /** Empty for a guest. */
  readonly jwt: string
  readonly owner: boolean
  /** Messages that it has to write. */
  readonly wanted: number
  /** Whether it asks for its channel now and then, though it has been told that it is no longer a member. */
  readonly asks: boolean
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
  /** Messages that it has still to write. */
  wanted: number
  /** Whether it knows that the channel was deleted. */
  isOrphan = false
  readonly #net: SimNetwork
  readonly #jwt: string
  readonly #form: WireForm
  readonly #channelId: Uint8Array
  readonly #asks: boolean
  readonly #bodyHashes = new Map<string, Uint8Array>()
  #outbox: Item[] = []
  #commit: PendingCommit | undefined
  #leaving: LeaveNotice | undefined
  #notBefore = 0
  #stream: (WireStream & { break(): void }) | undefined
  #joiner = new CellJoiner(8 * 1024 * 1024)
  #waiting = new Map<bigint, (body: Body) => void>()
  #lastRequest = 0n
  #ready = false
  #resuming = false
  #resumesAgain = false

  constructor(net: SimNetwork, key: AgentKey, channelId: Uint8Array, options: SimAgentOptions) {
    this.#net = net
    this.key = key
    this.id = toHex(key.id)
    this.#channelId = channelId
    this.#jwt = options.jwt
    this.owner = options.owner
    this.wanted = options.wanted
    this.#asks = options.asks
    this.#form = net.chance(0.5) ? 'cbor' : 'protobuf'
  }

  /** Its membership, as far as it knows. */
  get stay(): Stay | undefined {
    const stay = this.stays.at(-1)
    return stay?.isOver === false ? stay : undefined
  }

  /** Nothing is left to do. */
  get done(): boolean {
    const { stay } = this
    const quiet = this.#outbox.length === 0 && !this.#commit && !this.#leaving && this.#waiting.size === 0
    return this.#ready && stay !== undefined && quiet && stay.acked === stay.last && this.wanted === 0
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
    const { stay } = this
    if (!stay || this.isOrphan) {
      if (this.#asks && this.#net.chance(0.1)) this.#resume()
      return
    }
    if (this.wanted > 0 && this.#outbox.length < 2 * MAX_IN_FLIGHT && this.#net.chance(0.5)) this.#compose(stay)
    this.#pump(stay)
    this.#sendCommit()
    if (this.#leaving && this.#waiting.size === 0) this.#sendLeave(this.#leaving)
    if (stay.acked < stay.last && !this.#resuming && this.#net.chance(0.3)) this.#ack(stay)
    if (this.owner) this.#seeToChores()
  }

  /** Makes a commit that changes nothing, or adds someone who is out. */
  rekey(): void {
    if (!this.#isFree) return
    const [out] = this.#net.chance(0.5) ? membersOf(this.#net).out : []
    this.#propose(out === undefined || out === this.id ? [] : [Buffer.from(out, 'hex')], [], [])
  }

  /** The owner puts a member out. */
  remove(agent: SimAgent): void {
    if (this.#isFree && this.owner) this.#propose([], [agent.key.id], [])
  }

  leave(): void {
    const { stay } = this
    if (stay && !this.owner && !this.#leaving && this.#ready) this.#leaving = this.#notice(stay)
  }

  /** Votes that one of the last commits is invalid; the owner's vote decides. */
  reject(): void {
    const { stay } = this
    if (!stay || !this.#ready || stay.head === 0n) return
    const slot = stay.head - 1n - BigInt(this.#net.below(Math.min(3, Number(stay.head))))
    this.#request({ case: 'rejectCommit', value: { channelId: this.#channelId, slot } }, (body) => {
      if (body.case === 'error') this.#refused(body.value, ['not_found', 'not_allowed', 'removed'])
    })
  }

  /** The owner lets everybody commit again. */
  liftBars(agents: readonly SimAgent[]): void {
    if (!this.stay || !this.#ready) return
    for (const { id } of agents) {
      const value = { channelId: this.#channelId, agentId: Buffer.from(id, 'hex') }
      this.#request({ case: 'liftBar', value }, (body) => {
        if (body.case === 'error') this.#refused(body.value, ['not_found'])
      })
    }
  }

  /** The owner deletes the channel, once more if it does not know whether it has. */
  delete(): void {
    if (!this.#ready || this.#waiting.size > 0) return
    const channel = { case: 'channelId', value: this.#channelId }
    this.#request({ case: 'deleteChannel', value: { channel } }, (body) => {
      if (body.case === 'error') this.#refused(body.value, ['not_found'])
    })
  }

  /** The owner's first step. */
  create(): void {
    this.#founding = true
    this.#begin(0, chainStart(sha256, this.#channelId), 0n)
  }

  get #isFree(): boolean {
    return this.stay !== undefined && !this.#commit && this.#ready
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
    if (!this.#stream) return
    // The answer under way may be older than the reason to ask.
    if (this.#resuming) return void (this.#resumesAgain = true)
    this.#resuming = true
    this.#resumesAgain = false
    this.#request({ case: 'resume', value: { channelIds: [this.#channelId] } }, (body) => {
      this.#resuming = false
      if (body.case !== 'resume') return this.lose()
      const [state] = body.value.channels
      if (state) this.#resumed(state)
      this.#ready = true
      if (this.#resumesAgain) this.#resume()
    })
  }

  /** Of several answers the last one counts. */
  #resumed({ error, cursor, lastCounter, addedIndex }: ChannelState): void {
    if (error) {
      this.isOrphan ||= this.#net.orphans !== undefined && error.code === 'not_found'
      return this.#ended()
    }
    const base = Number(addedIndex)
    const own = this.stays.find((stay) => stay.base === base)
    // A later membership: its Welcome comes.
    if (!own) return this.#ended()
    if (own !== this.stay || own.isAdrift) this.#return(own, lastCounter)
    // What it had acknowledged may be lost.
    own.acked = Math.min(own.acked, Number(cursor?.index))
    const known = own.hashes.get(Number(cursor?.index))
    const told = toHex(cursor?.hash ?? new Uint8Array())
    if (known !== undefined && known !== told) this.#problem(`the cursor's hash at ${cursor?.index} is not the chain's`)
    // Messages that were on their way when it returned may be accepted later.
    if (lastCounter > own.counter && !own.isReturned) this.#problem(`the relay counts ${lastCounter} of ${own.counter}`)
  }

  /** The end of a membership was undone, or the later one that it had. */
  #return(stay: Stay, lastCounter: bigint): void {
    this.#ended()
    Object.assign(stay, { isOver: false, isReturned: true, isAdrift: false, counter: lastCounter })
    this.stays.splice(this.stays.indexOf(stay), 1)
    this.stays.push(stay)
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
        const hash = (): Uint8Array => this.#bodyHash(own, messageId, ciphertext)
        this.#enter(index, { kind: 'message', sender, messageId, hash, more: control ? ' c' : '' })
        if (own) this.#outbox = this.#outbox.filter((item) => toHex(item.messageId) !== toHex(messageId))
        return
      }
      case 'deliverCommit':
        return this.#delivered(body.value)
      case 'deliverLeave': {
        const { index, sender, notice } = body.value
        if (!notice) return this.#problem('a Leave without a notice')
        const hash = (): Uint8Array => sha256(leaveBody(notice))
        const isHere = this.#enter(index, { kind: 'leave', sender, messageId: new Uint8Array(), hash, more: '' })
        if (isHere && toHex(sender) === this.id) this.#ended()
        return
      }
      case 'deliverWelcome':
        return this.#welcomed(body.value)
      case 'gap':
        return this.#missed(body.value)
      case 'commitRejected': {
        const { undoneAdds, undoneRemoves } = body.value
        // What became of its membership, the answer says.
        if ([...undoneAdds, ...undoneRemoves].some((id) => toHex(id) === this.id)) this.#resume()
        return
      }
      case 'channelDeleted':
        this.isOrphan = true
        return
      default:
    }
  }

  #delivered({ index, sender, messageId, commit, declaration, slot }: Bodies<'deliverCommit'>): void {
    const own = toHex(sender) === this.id
    const bytes = declaration ? commitBody(commit, declaration) : new Uint8Array()
    const hash = (): Uint8Array => this.#bodyHash(own, messageId, bytes)
    const { stay } = this
    const before = stay?.last
    if (!this.#enter(index, { kind: 'commit', sender, messageId, hash, more: ` ${slot}` }) || !stay) return
    if (stay.last !== before) {
      if (slot !== stay.head) this.#problem(`the commit at ${index} takes slot ${slot} of ${stay.head}`)
      stay.head = slot + 1n
      const value = this.#commit?.message.body
      const isOurs = own && value?.case === 'sendCommit' && toHex(value.value.messageId) === toHex(messageId)
      // Otherwise another one has the slot: ours is lost.
      if (isOurs || (this.#commit && this.#commit.slot < stay.head)) this.#commit = undefined
      if (this.#leaving) this.#leaving = this.#notice(stay)
    }
    // Agents know by themselves which commits are invalid.
    const isVoid = this.#net.rejected.has(Number(slot))
    const changes = [...(declaration?.removes ?? []), ...(declaration?.adds ?? [])]
    // Whether it was removed, or added once more, which begins another stay.
    if (!isVoid && changes.some((id) => toHex(id) === this.id)) this.#ended()
  }

  #missed({ firstIndex, position, ended, last }: Bodies<'gap'>): void {
    const { stay } = this
    const end = Number(position?.index)
    // Of an earlier stay, when this one began before it was fetched.
    if (!stay || end <= stay.base) return
    if (firstIndex > stay.last + 1) this.#problem(`a gap from ${firstIndex} after ${stay.last}`)
    // It begins after the cursor; the agent may be further.
    if (end > stay.last) {
      stay.gaps.push({ first: stay.last + 1, last: end })
      stay.last = end
      stay.hash = position?.hash ?? stay.hash
      stay.head = position?.slot ?? stay.head
      stay.hashes.set(end, toHex(stay.hash))
      if (this.#commit && this.#commit.slot < stay.head) this.#commit = undefined
      if (this.#leaving) this.#leaving = this.#notice(stay)
    }
    if (ended && last) this.#ended()
  }

  /** Puts an entry into the chain unless it is there; false if it is not of this membership. */
  #enter(
    index: bigint,
    { kind, sender, messageId, hash, more }: EntryFields & { readonly hash: () => Uint8Array; readonly more: string },
  ): boolean {
    const at = Number(index)
    const text = `${kind} ${toHex(sender)} ${toHex(messageId)}${more}`
    const { stay } = this
    // Of an earlier stay, when this one began before it was fetched.
    if (!stay || at <= stay.base) return false
    const known = stay.entries.get(at)
    if (known !== undefined && known !== text) this.#problem(`entry ${at} was ${known}, now it is ${text}`)
    if (at <= stay.last) return true
    if (at !== stay.last + 1) {
      this.#problem(`entry ${at} comes after ${stay.last}`)
      return false
    }
    stay.entries.set(at, text)
    stay.last = at
    stay.hash = chainNext(sha256, stay.hash, { kind, sender, messageId, bodyHash: hash() })
    stay.hashes.set(at, toHex(stay.hash))
    return true
  }

  #bodyHash(own: boolean, messageId: Uint8Array, bytes: Uint8Array): Uint8Array {
    const known = own ? this.#bodyHashes.get(toHex(messageId)) : sha256(bytes)
    if (!known) this.#problem('an entry of its own that it does not know')
    return known ?? new Uint8Array(32)
  }

  #begin(base: number, hash: Uint8Array, head: bigint): void {
    this.#ended()
    const place = {
      last: base,
      acked: base,
      hash,
      head,
      counter: 0n,
      isOver: false,
      isReturned: false,
      isAdrift: false,
    }
    const hashes = new Map([[base, toHex(hash)]])
    this.stays.push({ base, entries: new Map(), gaps: [], hashes, ...place })
  }

  #welcomed({ position, slot }: Bodies<'deliverWelcome'>): void {
    const base = Number(position?.index)
    // Told again, because the acknowledgement was lost; or one that has been undone meanwhile.
    const isNew = this.stays.every((stay) => stay.base < base)
    if (isNew) this.#begin(base, position?.hash ?? new Uint8Array(), slot + 1n)
    this.#ackAt(base)
    this.#resume()
  }

  /** The membership is over: what was not accepted will not be. */
  #ended(): void {
    const { stay } = this
    if (!stay) return
    if (stay.last > stay.acked) this.#ack(stay)
    stay.isOver = true
    this.wanted += this.#outbox.length
    this.#outbox = []
    this.#commit = undefined
    this.#leaving = undefined
  }

  #ack(stay: Stay): void {
    stay.acked = stay.last
    this.#ackAt(stay.last)
  }

  #ackAt(index: number): void {
    const ack = create(AckRequestSchema, { positions: [{ channelId: this.#channelId, index: BigInt(index) }] })
    this.#stream?.write(makeCell('ack', encodeEnvelope(this.#form, AckRequestSchema, ack)))
  }

  // ---- Messages ----

  #compose(stay: Stay): void {
    this.wanted--
    const item = {
      messageId: this.#net.bytes(16),
      counter: ++stay.counter,
      control: this.#net.chance(0.1),
      ciphertext: this.#net.bytes(1 + this.#net.below(40)),
      sent: false,
    }
    const body = this.#net.chance(0.1) ? { ...item, ciphertext: new Uint8Array(3000).fill(this.#net.below(256)) } : item
    this.#bodyHashes.set(toHex(body.messageId), sha256(body.ciphertext))
    this.#outbox.push(body)
  }

  /** Sends what is not under way, in order. */
  #pump({ head }: Stay): void {
    let flying = this.#outbox.filter(({ sent }) => sent).length
    for (const item of this.#outbox) {
      if (item.sent) continue
      if (flying >= MAX_IN_FLIGHT) return
      flying++
      item.sent = true
      const { messageId, counter, control, ciphertext } = item
      const value = { channelId: this.#channelId, slot: head, messageId, counter, control, ciphertext }
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
    const { stay } = this
    if (body.case === 'error' && body.value.code === 'out_of_order' && stay?.isReturned === true) {
      stay.isAdrift = true
      return this.lose()
    }
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
    const slot = this.stay?.head ?? 0n
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
      if (body.case === 'sendCommit') return void (this.#commit = undefined)
      pending.sent = false
      if (body.case !== 'error') return
      // It lost its slot, or what it would do has been done.
      if (body.value.code !== 'unavailable' && body.value.code !== 'rate_limited') this.#commit = undefined
      const expected = ['epoch_mismatch', 'invalid_request', 'not_allowed', 'queue_full', 'removed', 'not_found']
      this.#refused(body.value, expected)
    })
  }

  /** Removes who has left, and adds again who is out; sometimes in one commit. */
  #seeToChores(): void {
    if (this.#commit || this.#net.chance(0.7)) return
    const { left, out } = membersOf(this.#net)
    const [leaver] = left
    if (leaver) {
      const id = Buffer.from(leaver[0], 'hex')
      return this.#propose(this.#net.chance(0.3) ? [id] : [], [id], [leaver[1]])
    }
    const [strayed] = this.#net.strayed(toHex(this.#channelId))
    if (strayed !== undefined) {
      const id = Buffer.from(strayed, 'hex')
      return this.#propose([id], [id], [])
    }
    const [absent] = out
    if (absent !== undefined) this.#propose([Buffer.from(absent, 'hex')], [], [])
  }

  #notice({ head }: Stay): LeaveNotice {
    return leaveNotice(this.key, this.#channelId, head)
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

/** Who has left and waits to be removed, and who is out, by the log and by what was rejected. */
export function membersOf({ truth, rejected, agents }: Pick<SimNetwork, 'truth' | 'rejected' | 'agents'>): {
  readonly left: ReadonlyMap<string, LeaveNotice>
  readonly out: ReadonlySet<string>
} {
  const left = new Map<string, LeaveNotice>()
  const out = new Set(agents.keys())
  for (const entry of truth) {
    if (entry?.kind === 'leave' && !out.has(entry.sender)) {
      const { leafKeys, ...notice } = entry.notice
      left.set(entry.sender, create(LeaveNoticeSchema, { ...notice, leafKeys: [...leafKeys] }))
    }
    if (entry?.kind !== 'commit' || rejected.has(entry.slot)) continue
    for (const id of entry.declaration.removes.map(toHex)) {
      left.delete(id)
      out.add(id)
    }
    for (const id of entry.declaration.adds.map(toHex)) {
      left.delete(id)
      out.delete(id)
    }
  }
  return { left, out }
}
