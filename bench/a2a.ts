/**
 * A2A SendMessage over a channel beside the same handler over HTTPS, in one run: the time of a call, and calls a second
 * with 50 at a time. The server is a process of its own for both, and so is the client; rounds take turns. HTTPS keeps
 * its connections open, goes straight to the server, and neither stores anything nor encrypts it for the other side.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { StaticClient } from '@static/sdk'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { startSystem } from './agent/system.ts'
import { median } from './api/processor.ts'

interface Way {
  /** Time of a call, in milliseconds. */
  readonly p50: number
  /** Calls a second. */
  readonly perSecond: number
}

const ROUNDS = Number(process.env['STATIC_BENCH_ROUNDS'] ?? 5)
const NAME = 'bench/a2a/pair'
const PROGRAM = join(import.meta.dirname, '../packages/a2a/test/speed-child.ts')

using workspace = await makeWorkspace()
await using system = await startSystem(workspace)
const optionsOf = (identity: string): Parameters<typeof StaticClient.connect>[0] => {
  return { ...system.connection('quic'), identity, dataDir: join(workspace.path, identity) }
}
const client = await StaticClient.connect(optionsOf('client'))
const server = await StaticClient.connect(optionsOf('server'))
const { agentId: to } = server
const channel = await client.createChannel(NAME)
await server.joinChannel(NAME, await channel.addMember(await server.generateKeyPackage()))
await client.close()
await server.close()

const env = { ...process.env, STATIC_TEST_CERTIFICATES: workspace.directory('certificates') }
const start = (role: 'client' | 'server', url: string): ReturnType<typeof fork> => {
  const party = { role, options: optionsOf(role), name: NAME, to, url, rounds: ROUNDS }
  return fork(PROGRAM, [JSON.stringify(party)], { env })
}
const serving = start('server', '')
const [{ url }] = (await once(serving, 'message')) as [{ url: string }]
const asking = start('client', url)
const rounds: { readonly channel: Way; readonly https: Way }[] = []
for (;;) {
  const [told] = (await once(asking, 'message')) as ['done' | (typeof rounds)[number]]
  if (told === 'done') break
  rounds.push(told)
  console.log(JSON.stringify(told))
}
for (const child of [asking, serving]) {
  child.disconnect()
  await once(child, 'exit')
}
const of = (pick: (round: (typeof rounds)[number]) => number): number => median(rounds.map(pick))
const result = {
  channel: { p50: of(({ channel: { p50 } }) => p50), perSecond: of(({ channel: { perSecond } }) => perSecond) },
  https: { p50: of(({ https: { p50 } }) => p50), perSecond: of(({ https: { perSecond } }) => perSecond) },
}
console.log(`SendMessage, p50: ${result.channel.p50} ms over a channel, ${result.https.p50} ms over HTTPS`)
console.log(`50 at once: ${result.channel.perSecond}/s over a channel, ${result.https.perSecond}/s over HTTPS`)
writeFileSync(join(import.meta.dirname, 'results/a2a.json'), `${JSON.stringify({ ...result, rounds }, null, 2)}\n`)
