/**
 * How long a guest takes to join: admitted by the owner, and by a member while the owner is off, over QUIC and gRPC. A
 * member waits for a random 0.5 to 3 s before it acts, so usually only one does. Target: p50 ≤ twice that by the owner
 * plus the median of this wait, 1.75 s. The wait spreads the p50 of 25 joins by 0.3 s, so a miss by less says nothing;
 * the fastest join shows the cost without most of the wait. `--rounds=N` for less.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type InviteOptions, StaticChannelManager } from '@static/sdk'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { startSystem, type Way, WAYS } from './agent/system.ts'
import { median } from './api/processor.ts'

const { values: flags } = parseArgs({ options: { rounds: { type: 'string', default: '25' } } })
const rounds = Number(flags.rounds)
const WAIT_MS = 1750

using workspace = await makeWorkspace()
await using system = await startSystem(workspace)
let agents = 0

async function start(way: Way, role: string, isGuest = false): Promise<StaticChannelManager> {
  const { apiKey, ...connection } = system.connection(way)
  const identity = `${role}-${++agents}`
  const dataDir = workspace.directory(identity)
  return await StaticChannelManager.connect({ ...connection, ...(!isGuest && { apiKey }), identity, dataDir })
}

/** A guest joins and leaves. */
async function joinOnce(way: Way, name: string, token: string): Promise<number> {
  await using guest = await start(way, 'guest', true)
  const before = performance.now()
  const channel = await guest.joinWithToken(name, token)
  const milliseconds = performance.now() - before
  await channel.leave()
  return milliseconds
}

interface Times {
  readonly p50: number
  readonly fastest: number
}

async function measure(way: Way, name: string, options: InviteOptions, isOwnerOff: boolean): Promise<Times> {
  await using stack = new AsyncDisposableStack()
  const owner = stack.use(await start(way, 'owner'))
  const member = stack.use(await start(way, 'member'))
  const channel = await owner.create(name)
  await member.joinWithToken(name, await owner.invite(name))
  const token = await owner.invite(name, { ...options, maxUses: rounds })
  if (isOwnerOff) {
    // The list of invites is in the log before this message.
    await channel.send('bye')
    await member.receive(name)
    await owner.close()
  }
  const times: number[] = []
  for (let round = 0; round < rounds; round++) times.push(await joinOnce(way, name, token))
  return { p50: Math.round(median(times)), fastest: Math.round(Math.min(...times)) }
}

const results: Record<string, { owner: Times; member: Times; limit: number }> = {}
for (const way of WAYS) {
  const owner = await measure(way, `bench/admit/${way}-owner`, {}, false)
  const member = await measure(way, `bench/admit/${way}-member`, { admit: 'members' }, true)
  const limit = Math.round(2 * owner.p50 + WAIT_MS)
  results[way] = { owner, member, limit }
  const text = `by a member ${member.p50} (target ≤ ${limit}), fastest ${member.fastest}`
  console.log(`${way}: p50 ${owner.p50} ms by the owner, ${text}`)
}
writeFileSync(join(import.meta.dirname, 'results/admit.json'), `${JSON.stringify(results, undefined, 2)}\n`)
