/**
 * An agent that lives through the deaths of its relay: it keeps several requests in flight, sends those that were not
 * answered again under the same ids, and checks everything that it is told.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chainNext, type ChainEntry, commitBody } from '@static/protocol'
import type { Declaration } from '@static/protocol/relay'
import { type Agent, makeKey, Refused, type ServerBody, sha256 } from '@static/testkit/agent'

/** What all members know: the body of every entry that was ever sent. */
export type Bodies = Map<string, ChainEntry>

/** A message that was not answered yet. */
interface Draft {
  readonly id: Uint8Array
  readonly counter: bigint
  readonly ciphertext: Uint8Array
}

/** A commit that was not answered yet: the same bytes every time. */
interface CommitDraft {
  readonly id: Uint8Array
  readonly slot: bigint
  readonly commit: Uint8Array
  readonly declaration: Declaration
}

const BURST = 8

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** One member of the channel. */
export class Member {
  readonly name: string
  readonly key: ReturnType<typeof makeKey> = makeKey()
  /** The log as this member has seen it: the id at every index, and the chain. */
  readonly log: Map<bigint, string> = new Map()
  readonly chain: Map<bigint, Uint8Array> = new Map()
  /** What the relay has answered: the index of every id. */
  readonly answered: Map<string, bigint> = new Map()
  /** How many requests were sent again. */
  repeated = 0
  sent = 0n
  lastIndex = 0n
  readonly #channel: Uint8Array
  readonly #bodies: Bodies
  readonly #random: () => number
  readonly #onAnswer: () => void
  #agent: Agent | undefined
  #head = 0n
  #drafts: Draft[] = []
  #commit: CommitDraft | undefined
  #failure: unknown

  constructor(name: string, channel: Uint8Array, bodies: Bodies, random: () => number, onAnswer: () => void) {
    this.name = name
    this.#channel = channel
    this.#bodies = bodies
    this.#random = random
    this.#onAnswer = onAnswer
  }

  get agent(): Agent {
    assert.ok(this.#agent)
    return this.#agent
  }

  /** Where this member's log begins. */
  begin(index: bigint, hash: Uint8Array): void {
    this.lastIndex = index
    this.chain.set(index, hash)
  }

  /** Takes a new session and finds out where it stands. */
  async resume(agent: Agent): Promise<void> {
    this.#agent = agent
    void this.#listen(agent)
    const { channels } = await agent.request('resume', { channelIds: [this.#channel] })
    const [state] = channels
    assert.ok(state?.cursor && state.error === undefined)
    assert.ok(state.lastIndex >= this.lastIndex, 'The log has become shorter.')
    const known = this.chain.get(state.cursor.index)
    assert.deepEqual(hex(state.cursor.hash), hex(known ?? new Uint8Array()), 'The chain at the cursor is another one.')
    // Accepted are all that were answered, and perhaps the next few.
    const first = this.#drafts[0]?.counter ?? this.sent + 1n
    assert.ok(state.lastCounter >= first - 1n && state.lastCounter <= this.sent, `${this.name}: the counter is wrong`)
    this.#head = state.head
    await this.until(state.lastIndex)
  }

  /** Waits until so much of the log has come, or the session is over. */
  async until(index: bigint): Promise<void> {
    let over = false
    void this.agent.ended.then(() => (over = true))
    const { agent } = this
    await agent.until(() => {
      this.#take(agent)
      return this.lastIndex >= index || over || this.#failure !== undefined
    })
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Sends bursts of messages, and commits now and then, until the session is over. */
  async work(commits: boolean): Promise<void> {
    let over = false
    void this.agent.ended.then(() => (over = true))
    while (!over) {
      const burst = 1 + Math.floor(this.#random() * BURST)
      while (this.#drafts.length < burst) this.#draft()
      if (commits && this.#random() < 0.15) this.#draftCommit()
      await this.#flush()
      if (this.#failure !== undefined) throw this.#failure
    }
  }

  /** Sends again what was not answered, until everything is. */
  async settle(): Promise<void> {
    while (this.#drafts.length > 0 || this.#commit !== undefined) await this.#flush()
    if (this.#failure !== undefined) throw this.#failure
  }

  #draft(): void {
    const ciphertext = new Uint8Array(randomBytes(1 + Math.floor(this.#random() * 3000)))
    const draft = { id: new Uint8Array(randomBytes(16)), counter: ++this.sent, ciphertext }
    this.#drafts.push(draft)
    this.#bodies.set(hex(draft.id), {
      kind: 'message',
      sender: this.key.id,
      messageId: draft.id,
      bodyHash: sha256(ciphertext),
    })
  }

  #draftCommit(): void {
    if (this.#commit !== undefined) return
    const id = new Uint8Array(randomBytes(16))
    const commit = new Uint8Array(randomBytes(200))
    const place = { channelId: this.#channel, slot: this.#head, messageId: id, commit }
    const declaration = this.agent.declaration(place, {})
    this.#commit = { id, slot: this.#head, commit, declaration }
    this.#bodies.set(hex(id), {
      kind: 'commit',
      sender: this.key.id,
      messageId: id,
      bodyHash: sha256(commitBody(commit, declaration)),
    })
  }

  /** Everything at once, in order; what is refused or not answered stays. */
  async #flush(): Promise<void> {
    const { agent } = this
    const drafts = this.#drafts
    const commit = this.#commit
    const work = drafts.map(async (draft) => {
      const { index } = await agent.send(this.#channel, this.#head, draft.counter, draft.ciphertext, draft.id)
      this.#note(draft.id, index)
    })
    if (commit !== undefined) {
      const { id: messageId, ...request } = commit
      work.push(
        agent.request('sendCommit', { ...request, channelId: this.#channel, messageId, welcomes: [] }).then(
          ({ index, head }) => {
            this.#commit = undefined
            this.#head = head > this.#head ? head : this.#head
            this.#note(commit.id, index)
          },
          (error: unknown) => {
            // Another one has won the slot: this one is not in the log, and the next one gets another id.
            if (error instanceof Refused) this.#commit = undefined
            throw error
          },
        ),
      )
    }
    for (const outcome of await Promise.allSettled(work)) {
      if (outcome.status === 'fulfilled') continue
      const { reason } = outcome
      if (reason instanceof Refused) this.#refused(reason)
      else this.repeated++
    }
    this.#drafts = this.#drafts.filter(({ id }) => !this.answered.has(hex(id)))
  }

  #refused({ code, refusal, message }: Refused): void {
    // A message waits for its turn again.
    if (code === 'epoch_mismatch' && refusal.head !== undefined && refusal.head > this.#head) this.#head = refusal.head
    else assert.ok(['epoch_mismatch', 'out_of_order', 'unavailable'].includes(code), message)
  }

  #note(id: Uint8Array, index: bigint): void {
    const before = this.answered.get(hex(id))
    assert.ok(before === undefined || before === index, 'The same id was answered with another index.')
    this.answered.set(hex(id), index)
    this.#onAnswer()
  }

  async #listen(agent: Agent): Promise<void> {
    let over = false
    void agent.ended.then(() => (over = true))
    while (!over) {
      await agent.until(() => agent.pushes.length > 0 || over)
      this.#take(agent)
    }
  }

  #take(agent: Agent): void {
    try {
      for (const { body } of agent.pushes.splice(0)) this.#delivered(agent, body)
    } catch (error) {
      this.#failure ??= error
      agent.close()
    }
  }

  #delivered(agent: Agent, body: ServerBody): void {
    // The Welcome comes again until it is acknowledged.
    if (body.case === 'sessionClosing' || body.case === 'deliverWelcome') return
    assert.ok(body.case === 'deliverMessage' || body.case === 'deliverCommit', `${this.name} was told ${body.case}`)
    const { index, messageId, sender, slot } = body.value
    const id = hex(messageId)
    if (body.case === 'deliverCommit' && slot >= this.#head) this.#head = slot + 1n
    if (index <= this.lastIndex) {
      assert.equal(this.log.get(index) ?? id, id, `${this.name}: the entry ${index} has changed`)
      return
    }
    assert.equal(index, this.lastIndex + 1n, `${this.name}: there is a hole in the log`)
    const entry = this.#bodies.get(id)
    assert.ok(entry, 'Nobody has sent this.')
    assert.equal(hex(sender), hex(entry.sender))
    if (body.case === 'deliverMessage' && hex(sender) !== hex(this.key.id)) {
      assert.equal(hex(sha256(body.value.ciphertext)), hex(entry.bodyHash), 'The body has changed.')
    }
    this.chain.set(index, chainNext(sha256, this.chain.get(index - 1n) ?? new Uint8Array(), entry))
    this.log.set(index, id)
    this.lastIndex = index
    if (this.#random() < 0.1) agent.ack(this.#channel, index)
  }
}
