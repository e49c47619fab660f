/** A member that holds the real state of its group and says to the relay whatever it likes. */
import { createPrivateKey, randomBytes } from 'node:crypto'
import type { DeclarationFields } from '@static/protocol'
import { Agent as RawAgent } from '@static/testkit/agent'
import { Agent as MlsAgent } from '../mls/support.ts'
import { ACCOUNT, type TestSystem } from './test-system.ts'

const PKCS8_ED25519 = Buffer.from('302e020100300506032b657004220420', 'hex')

/** A malicious member of one channel. */
export class Mallory {
  readonly mls: MlsAgent
  readonly raw: RawAgent
  /** The slot that the next commit takes. */
  head = 0n
  #channelId: Uint8Array = new Uint8Array()

  private constructor(mls: MlsAgent, raw: RawAgent) {
    this.mls = mls
    this.raw = raw
  }

  static async connect(world: TestSystem): Promise<Mallory> {
    const mls = new MlsAgent('mallory')
    const { publicKey, seed } = mls.key
    const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8_ED25519, seed]), format: 'der', type: 'pkcs8' })
    const key = { privateKey, publicKey, id: mls.agentId }
    return new Mallory(mls, await RawAgent.connect(world.relay.wire(), { key, jwt: world.relay.api.token(ACCOUNT) }))
  }

  get channelId(): Uint8Array {
    return this.#channelId
  }

  /** Joins; `own` is the KeyPackage that the Welcome is for. */
  async join(
    channelId: Uint8Array,
    welcome: Uint8Array,
    own: Awaited<ReturnType<MlsAgent['keyPackage']>>,
  ): Promise<void> {
    await this.mls.join(welcome, own)
    this.#channelId = channelId
    const { channels } = await this.raw.request('resume', { channelIds: [channelId] })
    this.head = channels[0]?.cursor?.slot ?? 0n
  }

  /** Follows the log up to an epoch. */
  async follow(epoch: number): Promise<void> {
    while (this.mls.epoch < epoch) {
      const { sender, slot, commit, declaration } = await this.raw.next('deliverCommit')
      this.head = slot + 1n
      // Its own come without a body.
      if (commit.length === 0 || !declaration) continue
      await this.mls.take({ agentId: sender } as MlsAgent, { commit, declaration })
    }
  }

  /** Sends bytes as a commit, with a declaration that it signs. */
  async commit(commit: Uint8Array, declared: Partial<DeclarationFields> = {}): Promise<void> {
    const messageId = new Uint8Array(randomBytes(16))
    const { head: slot, channelId } = this
    const change = {
      adds: [...(declared.adds ?? [])],
      removes: [...(declared.removes ?? [])],
      leaveNotices: (declared.leaveNotices ?? []).map(({ leafKeys, ...notice }) => ({
        $typeName: 'static.relay.v1.LeaveNotice' as const,
        ...notice,
        leafKeys: [...leafKeys],
      })),
      vouches: [...(declared.vouches ?? [])],
      owner: declared.owner ?? new Uint8Array(),
      standby: declared.standby ?? new Uint8Array(),
    }
    const declaration = this.raw.declaration({ channelId, slot, messageId, commit }, change)
    await this.raw.request('sendCommit', { channelId, slot, messageId, commit, declaration, welcomes: [] })
  }
}
