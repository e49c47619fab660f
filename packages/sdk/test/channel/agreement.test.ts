import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import { declarationBytes, type DeclarationFields, toHex } from '@static/protocol'
import { SendCommitRequestSchema } from '@static/protocol/relay'
import fc from 'fast-check'
import { ed25519 } from '../../src/mls/index.ts'
import { FORBIDDEN } from '../mls/forbidden-commits.ts'
import { type Agent } from '../mls/support.ts'
import { outsider, Stage } from '../support/stage.ts'
import { SEED } from '@static/testkit/random'

const DAYS = 86_400_000
const NAMES = ['owner', 'bob', 'cid', 'eve']

/** A member that says to the relay what it likes, and follows the log by itself. */
class Eve {
  readonly #stage: Stage
  readonly agent: Agent
  #followed = 0

  constructor(stage: Stage) {
    this.#stage = stage
    this.agent = stage.apart.get('eve') ?? assert.fail()
  }

  async follow(): Promise<void> {
    const { log } = this.#stage
    for (const entry of log.slice(this.#followed)) {
      if (entry.kind !== 'commit' || entry.sender === toHex(this.agent.agentId)) continue
      const { commit, declaration } = entry.request
      const sender = { agentId: Buffer.from(entry.sender, 'hex') } as unknown as Agent
      await this.agent.take(sender, { commit, declaration: declaration ?? assert.fail() })
    }
    this.#followed = log.length
  }

  commit(commit: Uint8Array, declared: Partial<DeclarationFields> = {}): void {
    const { channelId, position } = this.#stage
    const messageId = new Uint8Array(randomBytes(16))
    const slot = BigInt(position.slot)
    const declaration = { adds: [], removes: [], leaveNotices: [], vouches: [], ...declared }
    const place = { channelId, slot, messageId, commitHash: sha256(commit) }
    const signature = ed25519.signer(this.agent.key)(declarationBytes(place, declaration))
    const { adds, removes, leaveNotices, vouches, owner, standby }: DeclarationFields = declaration
    const request = create(SendCommitRequestSchema, {
      channelId,
      slot,
      messageId,
      commit,
      declaration: {
        adds: [...adds],
        removes: [...removes],
        leaveNotices: leaveNotices.map((n) => ({ ...n, leafKeys: [...n.leafKeys] })),
        vouches: [...vouches],
        owner: owner ?? new Uint8Array(),
        standby: standby ?? new Uint8Array(),
        signature,
      },
    })
    this.#stage.append({ kind: 'commit', sender: toHex(this.agent.agentId), slot: position.slot, request })
  }
}

const forbidden = FORBIDDEN.filter(([, reason]) => reason !== 'declaration_of_another')
const step = fc.oneof(
  fc.record({ do: fc.constant('rotate' as const), who: fc.nat({ max: 2 }) }),
  fc.record({ do: fc.constant('add' as const) }),
  fc.record({ do: fc.constant('remove' as const) }),
  fc.record({ do: fc.constant('say' as const), who: fc.nat({ max: 2 }) }),
  fc.record({ do: fc.constant('forbidden' as const), which: fc.nat({ max: forbidden.length - 1 }) }),
  fc.record({ do: fc.constant('time' as const), days: fc.nat({ max: 3 }) }),
)
const skew = fc.integer({ min: -200, max: 200 }).map((days) => days * DAYS)
/** Whom a member has known by which key before. */
const pins = fc.array(fc.record({ name: fc.constantFrom(...NAMES, 'new 0', 'new 1'), key: fc.nat({ max: 255 }) }), {
  maxLength: 6,
})

test('members accept and skip the same commits, whatever their clocks and pins say', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const steps = fc.array(step, { minLength: 4, maxLength: 10 })
  await fc.assert(
    fc.asyncProperty(fc.tuple(skew, skew, skew), fc.tuple(pins, pins, pins), steps, async (skews, pins, steps) => {
      const stage = await Stage.start(NAMES, { apart: ['eve'] })
      const eve = new Eve(stage)
      for (const [at, player] of stage.players.entries()) {
        // The owner adds, and whoever adds looks at its clock.
        player.skew = at === 0 ? 0 : skews[at]!
        for (const { name, key } of pins[at]!) {
          player.pins.set(stage.owner, Buffer.from(name), Buffer.alloc(32, key).toString('hex'))
        }
      }
      let joined = 0
      for (const step of steps) {
        const before = stage.players[0]!.epoch
        await act(stage, eve, step, () => `new ${joined++}`)
        await stage.settle()
        await eve.follow()
        const views = new Set(stage.players.map(({ view }) => view))
        assert.equal(views.size, 1, `${step.do} ${[...views].join('\n')}`)
        if (step.do === 'forbidden') assert.equal(stage.players[0]!.epoch, before)
        for (const player of stage.players) assert.equal(player.channel.failure, undefined)
      }
    }),
    { seed: SEED, numRuns: 15 },
  )
})

async function act(
  stage: Stage,
  eve: Eve,
  step: { do: string; who?: number; which?: number; days?: number },
  fresh: () => string,
): Promise<void> {
  const [owner] = stage.players
  const player = stage.players[step.who ?? 0]
  assert.ok(owner && player)
  switch (step.do) {
    case 'rotate':
      return void player.channel.upkeep.rekey()
    case 'say':
      return void player.send('words')
    case 'time':
      return await stage.advance((step.days ?? 0) * DAYS, DAYS / 2)
    case 'add': {
      const guest = await outsider(stage, fresh())
      const added = owner.channel.committer.commit(() => ({ adds: [guest.keyPackage] }))
      await stage.settle()
      const { welcomes } = await added
      await guest.join(welcomes[0]!.welcome)
      return
    }
    case 'remove': {
      const last = stage.players.at(-1)
      if (!last || stage.players.length <= 3) return
      stage.players.pop()
      return void owner.channel.committer.commit(() => ({ removes: [Buffer.from(last.agentId, 'hex')] }))
    }
    default: {
      const [, , forge] = forbidden[step.which ?? 0]!
      const [first, second] = stage.players
      const victim = ({ agentId, key }: typeof owner): { agentId: Uint8Array; key: typeof key } => ({
        agentId: Buffer.from(agentId, 'hex'),
        key,
      })
      await eve.follow()
      const scene = { channelId: stage.channelId, ann: eve.agent, owner: victim(first!), bob: victim(second!) }
      const { commit, declaration } = await forge(scene)
      eve.commit(commit, declaration)
    }
  }
}
