/** Agents in one process and a relay that delivers everything to everyone. */
import { randomBytes } from 'node:crypto'
import { generateSignatureKeyPair, type SignatureKeyPair } from '@static/node/ed25519'
import { type DeclarationFields, parseChannelName } from '@static/protocol'
import { agentIdOf } from '../../src/mls/credential.ts'
import type {
  CommitChange,
  Epoch,
  ExpectedWelcome,
  Group,
  MlsEngine,
  NewKeyPackage,
  PendingCommit,
  Processed,
} from '../../src/mls/engine.ts'
import { type Opened, type RatchetRow, type Sealed } from '../../src/mls/ratchet.ts'
import { makeEngine } from '../../src/mls/ts-mls/adapter.ts'

export const engine: MlsEngine = makeEngine()
export const NAME: ReturnType<typeof parseChannelName> = parseChannelName('acme/support/routing')
export const text = (words: string): Uint8Array => new TextEncoder().encode(words)
export const words = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** An agent with its place in one channel. */
export class Agent {
  readonly key: SignatureKeyPair = generateSignatureKeyPair()
  readonly identity: Uint8Array
  readonly agentId: Uint8Array
  #group: Group | undefined
  rows: Map<number, RatchetRow> = new Map()

  constructor(name: string) {
    this.identity = text(name)
    this.agentId = agentIdOf(this.key.publicKey)
  }

  get group(): Group {
    if (this.#group === undefined) throw new Error('not in a channel')
    return this.#group
  }

  set group(group: Group) {
    this.#group = group
  }

  get epoch(): bigint {
    return engine.facts(this.group).epoch
  }

  enter({ group, rows }: Epoch): void {
    this.#group = group
    this.rows = new Map(rows.map((row) => [row.leaf, row]))
  }

  keyPackage(now: number = Date.now()): Promise<NewKeyPackage> {
    return engine.generateKeyPackage(this.identity, this.key, now)
  }

  async join(welcome: Uint8Array, { privatePart }: NewKeyPackage, expected: ExpectedWelcome = {}): Promise<void> {
    this.enter(await engine.join(welcome, privatePart, this.key, expected))
  }

  /** Makes a commit and saves what a client saves before it sends it. */
  async commit(change: Omit<CommitChange, 'now'> = {}): Promise<PendingCommit> {
    const pending = await engine.commit(this.group, { ...change, now: Date.now() })
    engine.wipe(this.group, pending.current)
    this.#group = pending.current
    return pending
  }

  /** Takes a commit of another, as a client does. */
  async take(
    sender: Agent,
    { commit, declaration }: Pick<PendingCommit, 'commit' | 'declaration'>,
  ): Promise<Processed> {
    const result = await this.judge(commit, declaration, sender.agentId)
    if (result.kind === 'accepted' && result.next !== undefined) {
      const old = this.group
      this.enter(result.next)
      engine.wipe(old, this.group)
    }
    return result
  }

  judge(commit: Uint8Array, declaration: DeclarationFields, declarer: Uint8Array): Promise<Processed> {
    return engine.process(this.group, commit, { declaration, declarer })
  }

  /** The relay has accepted this member's own commit. */
  adopt(pending: PendingCommit): void {
    this.enter(pending.next)
    engine.wipe(pending.current, this.group)
  }

  send(message: string | Uint8Array, data?: Uint8Array): Uint8Array {
    return this.seal(message, data).ciphertext
  }

  seal(message: string | Uint8Array, data?: Uint8Array): Sealed {
    const sealed = engine.encrypt(this.group, this.rows, typeof message === 'string' ? text(message) : message, data)
    this.rows.set(sealed.row.leaf, sealed.row)
    return sealed
  }

  open(ciphertext: Uint8Array): Opened {
    const opened = engine.open(this.group, this.rows, ciphertext, { steps: 1024 })
    this.rows.set(opened.row.leaf, opened.row)
    return opened
  }

  read(ciphertext: Uint8Array): string {
    return words(this.open(ciphertext).plaintext)
  }

  /** As after a restart: everything from bytes. */
  restart(): void {
    this.#group = engine.decodeGroup(engine.encodeGroup(this.group), this.key)
  }
}

/** A channel's id, its owner alone in it with the founder removed. */
export async function makeChannel(owner: Agent): Promise<Uint8Array> {
  const channelId = new Uint8Array(randomBytes(16))
  const own = await owner.keyPackage()
  const welcome = await engine.found({ channelId, name: NAME, keyPackage: own.keyPackage, now: Date.now() })
  await owner.join(welcome, own, { channelId, name: NAME, owner: owner.agentId, founding: true })
  owner.adopt(await owner.commit({ removeFounder: true }))
  return channelId
}

/** Adds agents in one commit, told to those who are there. */
export async function addAll(adder: Agent, joiners: readonly Agent[], others: readonly Agent[] = []): Promise<void> {
  const made = await Promise.all(joiners.map((joiner) => joiner.keyPackage()))
  const pending = await adder.commit({ adds: made.map(({ keyPackage }) => keyPackage) })
  adder.adopt(pending)
  for (const other of others) await other.take(adder, pending)
  for (const [at, joiner] of joiners.entries()) {
    const [welcome, own] = [pending.welcomes[at]?.welcome, made[at]]
    if (welcome === undefined || own === undefined) throw new Error('no Welcome')
    await joiner.join(welcome, own, { name: NAME, owner: adder.agentId, signer: adder.agentId })
  }
}

/** A channel of these agents; the first one owns it. */
export async function channelOf(...names: string[]): Promise<{ channelId: Uint8Array; agents: Agent[] }> {
  const agents = names.map((name) => new Agent(name))
  const [owner, ...joiners] = agents
  if (owner === undefined) throw new Error('a channel has an owner')
  const channelId = await makeChannel(owner)
  if (joiners.length > 0) await addAll(owner, joiners)
  return { channelId, agents }
}
