/**
 * What proofs cost: a join with one against a join without, one guest at a time and in turns, over QUIC and gRPC (target:
 * the median of the ratios of neighbours is at most 1.15), and the check of all members of the largest channel (target:
 * 2 s of CPU). The proof is the statement of a domain, whose file is on this machine; fetches take place once an hour and
 * not for a proof. `--rounds=N` for less.
 */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign as signature } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { StaticChannelManager } from '@static/sdk'
import { userPlaces } from '@static/sdk/account'
import {
  DomainStore,
  holdStatement,
  makeProof,
  openChecker,
  parseRoot,
  SALT_BYTES,
  TrustStore,
} from '@static/sdk/trust'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { startSystem, type Way, WAYS } from './agent/system.ts'
import { cpuMs, median } from './api/processor.ts'

const { values: flags } = parseArgs({ options: { rounds: { type: 'string', default: '60' } } })
const rounds = Number(flags.rounds)
const WARM_UP = 8
const MOST_RATIO = 1.15
const MOST_CPU_SECONDS = 2
const MEMBERS = 250
const DOMAIN = 'acme.example'

using workspace = await makeWorkspace()
process.env['XDG_DATA_HOME'] = workspace.directory('data')
const places = userPlaces()
const domain = new DomainStore(places.domains, DOMAIN)
domain.init()
const keys = join(workspace.path, 'static-agents.json')
writeFileSync(keys, domain.publicFile(Date.now()))
const root = parseRoot(DOMAIN, { keys })
new TrustStore(places.trust).change(() => [{ root }])
await using system = await startSystem(workspace)
let agents = 0

async function start(way: Way, role: string, isGuest: boolean): Promise<StaticChannelManager> {
  const { apiKey, ...connection } = system.connection(way)
  const identity = `${role}-${++agents}`
  const dataDir = workspace.directory(identity)
  const agent = await StaticChannelManager.connect({ ...connection, ...(!isGuest && { apiKey }), identity, dataDir })
  const about = { agentId: agent.client.agentId, subject: identity }
  holdStatement(dataDir, await domain.sign(about, 30, Date.now()))
  return agent
}

interface Cost {
  readonly ms: number
  readonly cpuMs: number
}

/** A guest joins and leaves. Its statement was signed before. */
async function joinOnce(way: Way, name: string, token: string, isProven: boolean): Promise<Cost> {
  await using guest = await start(way, 'guest', true)
  const cpu = (): number => cpuMs(process.pid) + cpuMs(system.pid)
  const [before, cpuBefore] = [performance.now(), cpu()]
  const channel = await guest.joinWithToken(name, token, 60, isProven ? { show: DOMAIN } : {})
  const cost = { ms: performance.now() - before, cpuMs: cpu() - cpuBefore }
  await channel.leave()
  return cost
}

interface Joins {
  readonly without: Cost
  readonly with: Cost
  readonly ratio: number
  readonly cpuRatio: number
}

async function measureJoins(way: Way): Promise<Joins> {
  await using owner = await start(way, 'owner', false)
  const [name, uses] = [`bench/proofs/${way}`, { maxUses: rounds + WARM_UP }]
  await owner.create(name)
  const tokens = [await owner.invite(name, uses), await owner.invite(name, { ...uses, require: DOMAIN })] as const
  const costs: readonly [Cost[], Cost[]] = [[], []]
  for (let round = -WARM_UP; round < rounds; round++) {
    // In turns, and each first as often as the other.
    for (const kind of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const cost = await joinOnce(way, name, tokens[kind], kind === 1)
      if (round >= 0) costs[kind].push(cost)
    }
  }
  const middle = (of: readonly Cost[]): Cost => ({
    ms: median(of.map(({ ms }) => ms)),
    cpuMs: of.reduce((sum, { cpuMs: each }) => sum + each, 0) / of.length,
  })
  const [without, proven] = [middle(costs[0]), middle(costs[1])]
  const ratios = costs[1].map(({ ms }, round) => ms / (costs[0][round]?.ms ?? Number.NaN))
  return { without, with: proven, ratio: median(ratios), cpuRatio: proven.cpuMs / without.cpuMs }
}

/** CPU time of the check of as many proofs as a channel has members, in seconds. */
async function measureChecks(): Promise<number> {
  const checker = openChecker({ directory: places.trust, identity: 'owner', roots: [root] }, () => {})
  await checker.start()
  const [channelId, ownerId] = [randomBytes(16), randomBytes(32)]
  const shown = await Promise.all(Array.from({ length: MEMBERS }, async (_, place) => await proofOf(place)))
  const before = process.cpuUsage()
  for (const { proof, context } of shown) {
    const { state } = await checker.check(proof, context)
    if (state !== 'checked') throw new Error(`A proof is ${state}.`)
  }
  const { user, system: inKernel } = process.cpuUsage(before)
  checker.stop()
  return (user + inKernel) / 1e6

  async function proofOf(place: number): Promise<{ proof: Uint8Array; context: Parameters<typeof checker.check>[1] }> {
    const key = generateKeyPairSync('ed25519')
    const publicKey = rawOf(key.publicKey)
    const agentId = createHash('sha256').update(publicKey).digest('hex')
    const jwt = await domain.sign({ agentId, subject: `member-${place}` }, 30, Date.now())
    const context = { channelId, ownerId, publicKey, place }
    const about = { kind: 'statement', salt: randomBytes(SALT_BYTES), jwt } as const
    const proof = makeProof(about, context, (bytes) => signature(null, bytes, key.privateKey))
    if (!proof) throw new Error('A statement does not fit into a proof.')
    return { proof, context }
  }
}

function rawOf(key: KeyObject): Uint8Array {
  return Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url')
}

const joins: Record<string, Joins> = {}
for (const way of WAYS) {
  const found = await measureJoins(way)
  joins[way] = found
  const [before, after] = [found.without, found.with].map(
    ({ ms, cpuMs: cpu }) => `${ms.toFixed(1)} ms, ${cpu.toFixed(1)} ms of CPU`,
  )
  const ratios = `${found.ratio.toFixed(2)}× (target ≤ ${MOST_RATIO}×), CPU ${found.cpuRatio.toFixed(2)}×`
  console.log(`${way}: p50 of a join ${before} without, ${after} with a proof: ${ratios}`)
}
const cpuSeconds = await measureChecks()
console.log(`${MEMBERS} members checked in ${cpuSeconds.toFixed(2)} s of CPU (target ≤ ${MOST_CPU_SECONDS} s)`)
const results = { joins, members: MEMBERS, cpuSeconds }
writeFileSync(join(import.meta.dirname, 'results/proofs.json'), `${JSON.stringify(results, undefined, 2)}\n`)
if (Object.values(joins).some(({ ratio }) => ratio > MOST_RATIO) || cpuSeconds > MOST_CPU_SECONDS) process.exitCode = 1
