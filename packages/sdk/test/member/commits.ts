/** Commits of a malicious member: forbidden, malformed, too large, of other epochs, and such that only some can read. */
import type { CiphersuiteImpl, Proposal } from 'ts-mls'
import type { Commit } from 'ts-mls/commit.js'
import { directPath, leafToNodeIndex, leafWidth, toLeafIndex } from 'ts-mls/treemath.js'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { fromHex, maxCommitBytes } from '@static/protocol'
import { capabilitiesOf } from '../../src/mls/ts-mls/config.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from '../mls/attacker.ts'
import { add, FORBIDDEN, remove, type Victim, withLeaf } from '../mls/forbidden-commits.ts'
import { engine, hex, text } from '../mls/support.ts'
import type { Player } from '../support/stage.ts'
import type { Attack, Scene } from './attack.ts'
import type { Attacker } from './attacker.ts'

const { provider, suite } = crypto
const CAPABILITIES = ['versions', 'ciphersuites', 'extensions', 'proposals', 'credentials'] as const

const victimOf = ({ agentId, key }: Player): Victim => ({ agentId: fromHex(agentId), key })

/** The attacker can only sign declarations of its own. */
const forbidden = FORBIDDEN.filter(([, reason]) => reason !== 'declaration_of_another')

const rules = forbidden.map(([name, reason, forge]): Attack => [
  name,
  async ({ stage, attacker, owner, victim }) => {
    if (victim === owner) return undefined
    const scene = { channelId: stage.channelId, ann: attacker.mls, owner: victimOf(owner), bob: victimOf(victim) }
    const { commit, declaration } = await forge(scene)
    attacker.commit(commit, declaration)
    return { skipped: reason }
  },
])

function many<Item>(item: Item, count: number): Item[] {
  return Array.from({ length: count }, () => item)
}

/** Unsigned commits with more in them than a group can have. */
const large: readonly Attack[] = (
  [
    [
      'Removes',
      251,
      (commit, { attacker, owner }, count) => withProposals(commit, remove(attacker.mls, victimOf(owner)), count),
    ],
    [
      'path nodes',
      9,
      (commit, _scene, count) => {
        const [node] = commit.path?.nodes ?? []
        return { ...commit, path: commit.path && { ...commit.path, nodes: node ? many(node, count) : [] } }
      },
    ],
    [
      'path secrets',
      257,
      (commit, _scene, count) => {
        const nodes = commit.path?.nodes.map((node) => {
          const [secret] = node.encryptedPathSecret
          return { ...node, encryptedPathSecret: secret ? many(secret, count) : [] }
        })
        return { ...commit, path: commit.path && nodes && { ...commit.path, nodes } }
      },
    ],
    [
      'proposals of an unknown type',
      33,
      (commit, _scene, count) => withProposals(commit, { proposalType: 0xf123, proposalData: new Uint8Array() }, count),
    ],
  ] as readonly (readonly [string, number, (commit: Commit, scene: Scene, count: number) => Commit])[]
).map(([name, least, change]): Attack => [
  `a commit with too many ${name}`,
  async (scene) => {
    const count = scene.attacker.pick([least, least + scene.attacker.below(100), 1000])
    scene.attacker.commit(await scene.attacker.reshape((commit) => change(commit, scene, count)))
    return { skipped: 'out_of_bounds' }
  },
])

function withProposals(commit: Commit, proposal: Proposal, count: number): Commit {
  return { ...commit, proposals: many({ proposalOrRefType: 'proposal' as const, proposal }, count) }
}

/** Leaves with lists around their limit. */
const leaves = CAPABILITIES.map((list): Attack => [
  `a leaf with many ${list}`,
  async ({ attacker }) => {
    const ours = capabilitiesOf(suite)
    const base: readonly unknown[] = ours[list]
    const filler =
      list === 'versions'
        ? 'mls10'
        : list === 'ciphersuites'
          ? provider.name
          : list === 'credentials'
            ? 'basic'
            : 0x0a0a
    const count = attacker.pick([32, 33, 34 + attacker.below(200), 3000])
    const capabilities = { ...ours, [list]: [...base, ...many(filler, count - base.length)] }
    const { commit, next } = await attacker.make([], { state: withLeaf(attacker.mls, { capabilities }) })
    attacker.commit(commit)
    return count <= 32 ? { followed: next } : { skipped: 'out_of_bounds' }
  },
])

/** A commit whose path secrets these members cannot read, nor others below the same nodes. */
async function unreadableBy(attacker: Attacker, victims: readonly Player[]): Promise<Uint8Array> {
  const { ratchetTree } = inside(attacker.mls.group).state
  const keys = new Set(
    victims.flatMap(({ channel: { group } }) => {
      if (!group) return []
      const leaf = leafToNodeIndex(toLeafIndex(engine.facts(group.group).own.leaf))
      return [leaf, ...directPath(leaf, leafWidth(ratchetTree.length))].flatMap((at) => {
        const node = ratchetTree[at]
        if (!node) return []
        return [hex(node.nodeType === 'leaf' ? node.leaf.hpkePublicKey : node.parent.hpkePublicKey)]
      })
    }),
  )
  const seal: CiphersuiteImpl['hpke']['seal'] = async (key, ...rest) => {
    const sealed = await provider.hpke.seal(key, ...rest)
    if (keys.has(hex(await provider.hpke.exportPublicKey(key)))) sealed.ct.fill(7)
    return sealed
  }
  const { commit } = await attacker.make([], { provider: { ...provider, hpke: { ...provider.hpke, seal } } })
  return commit
}

export const COMMITS: readonly Attack[] = [
  ...rules,
  ...large,
  ...leaves,
  [
    'noise as a commit',
    ({ attacker, stage }) => {
      attacker.commit(attacker.noise(attacker.size(maxCommitBytes(stage.players.length))))
      return { skipped: true }
    },
  ],
  [
    'a damaged commit',
    async ({ attacker }) => {
      attacker.commit(attacker.spoil((await attacker.make([])).commit))
      return { skipped: true }
    },
  ],
  [
    'a commit of another epoch',
    async ({ attacker }) => {
      const own = engine.facts(attacker.mls.group).epoch
      const epoch = attacker.pick([0n, own - 1n, own + 1n, own + BigInt(attacker.below(1000)) + 2n, (1n << 64n) - 1n])
      attacker.commit(attacker.numbered((await attacker.make([])).commit, epoch))
      return { skipped: 'other_epoch' }
    },
  ],
  [
    'the commit of another member again',
    ({ attacker, stage }) => {
      const entry = stage.log.findLast(({ kind, sender }) => kind === 'commit' && sender !== attacker.agentId)
      if (entry?.kind !== 'commit') return undefined
      attacker.commit(entry.request.commit)
      return { skipped: true }
    },
  ],
  [
    'a re-key',
    async ({ attacker }) => {
      const { commit, next } = await attacker.make([])
      attacker.commit(commit)
      return { followed: next }
    },
  ],
  [
    'accomplices',
    async ({ attacker, stage }) => {
      const count = 1 + attacker.below(3)
      const made = await Promise.all(many('', count).map((_, at) => add(`eve ${stage.position.index} ${at}`)))
      const { commit, next } = await attacker.make(made.map(([proposal]) => proposal))
      attacker.commit(commit, { adds: made.map(([, agentId]) => agentId) })
      return { followed: next }
    },
  ],
  [
    'an accomplice with any identity',
    async ({ attacker }) => {
      const identity = attacker.pick([
        new Uint8Array(),
        Uint8Array.of(0),
        attacker.noise(255),
        attacker.noise(256),
        attacker.noise(3000),
        text('\u202eevil\u0000\r\n'),
        text('owner '),
      ])
      const [proposal, agentId] = await add(identity, generateSignatureKeyPair())
      const { commit, next } = await attacker.make([proposal])
      attacker.commit(commit, { adds: [agentId] })
      return { together: next }
    },
  ],
  [
    'a commit that only some can read',
    async ({ attacker, stage }) => {
      const victims = stage.players.filter(() => attacker.below(2) === 0)
      attacker.commit(await unreadableBy(attacker, victims))
      return { divided: victims, last: true }
    },
  ],
]
