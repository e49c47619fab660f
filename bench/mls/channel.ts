/** A channel with its members in one process. */
import { randomBytes } from 'node:crypto'
import { parseChannelName } from '@static/protocol'
import {
  agentIdOf,
  type Epoch,
  generateSignatureKeyPair,
  type Group,
  makeEngine,
  type MlsEngine,
  type NewKeyPackage,
  type PendingCommit,
  type Processed,
  type RatchetRow,
  type SignatureKeyPair,
} from '@static/sdk/mls'

export const engine: MlsEngine = makeEngine()

/** One member. */
export class Member {
  readonly key: SignatureKeyPair = generateSignatureKeyPair()
  readonly agentId: Uint8Array = agentIdOf(this.key.publicKey)
  readonly name: Uint8Array
  rows: Map<number, RatchetRow> = new Map()
  #group: Group | undefined

  constructor(name: string) {
    this.name = new TextEncoder().encode(name)
  }

  get group(): Group {
    if (this.#group === undefined) throw new Error('not in the channel')
    return this.#group
  }

  enter({ group, rows }: Epoch): void {
    this.#group = group
    this.rows = new Map(rows.map((row) => [row.leaf, row]))
  }

  keyPackage(): Promise<NewKeyPackage> {
    return engine.generateKeyPackage(this.name, this.key, Date.now())
  }

  process(sender: Member, { commit, declaration }: PendingCommit): Promise<Processed> {
    return engine.process(this.group, commit, { declaration, declarer: sender.agentId })
  }

  async follow(sender: Member, pending: PendingCommit): Promise<void> {
    const result = await this.process(sender, pending)
    if (result.kind !== 'accepted' || result.next === undefined) throw new Error(result.kind)
    this.enter(result.next)
  }

  seal(payload: Uint8Array): Uint8Array {
    const { row, ciphertext } = engine.encrypt(this.group, this.rows, payload)
    this.rows.set(row.leaf, row)
    return ciphertext
  }

  open(ciphertext: Uint8Array): void {
    const { row } = engine.open(this.group, this.rows, ciphertext, { steps: 1024 })
    this.rows.set(row.leaf, row)
  }
}

/** An owner, alone. */
export async function makeOwner(): Promise<Member> {
  const owner = new Member('owner')
  const own = await owner.keyPackage()
  const name = parseChannelName('acme/bench/mls')
  const founding = { channelId: randomBytes(16), name, keyPackage: own.keyPackage, now: Date.now() }
  const welcome = await engine.found(founding)
  owner.enter(await engine.join(welcome, own.privatePart, owner.key, { founding: true }))
  owner.enter((await engine.commit(owner.group, { removeFounder: true, now: Date.now() })).next)
  return owner
}

/** Members who could be added, with their KeyPackages. */
export async function makeJoiners(count: number): Promise<{ member: Member; own: NewKeyPackage }[]> {
  return Promise.all(
    Array.from({ length: count }, async (_, at) => {
      const member = new Member(`member ${at}`)
      return { member, own: await member.keyPackage() }
    }),
  )
}
