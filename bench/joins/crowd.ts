/** Many guests in one process: their work costs as much as in separate processes on the same cores. */
import { join } from 'node:path'
import { StaticChannelManager } from '@static/sdk'
import type { Ask, Told } from './messages.ts'

const { directory, ...options } = JSON.parse(process.argv[2] ?? '{}') as { readonly directory: string } & object
const agents: StaticChannelManager[] = []
/** How many connect at once. */
const DIALS = 16

async function connect(count: number): Promise<void> {
  while (agents.length < count) {
    const first = agents.length
    const batch = Array.from({ length: Math.min(DIALS, count - first) }, async (_, at) => {
      const identity = `guest-${process.pid}-${first + at}`
      const dataDir = join(directory, identity)
      return await StaticChannelManager.connect({ ...options, apiKey: null, identity, dataDir })
    })
    agents.push(...(await Promise.all(batch)))
  }
}

async function answer(ask: Ask): Promise<readonly string[]> {
  switch (ask.type) {
    case 'connect':
      await connect(ask.count)
      return []
    case 'join':
      await Promise.all(agents.slice(0, ask.count).map((agent) => agent.joinWithToken(ask.name, ask.token, 600)))
      return []
    case 'keyPackages': {
      const made = await Promise.all(agents.slice(0, ask.count).map(({ client }) => client.generateKeyPackage()))
      return made.map((bytes) => Buffer.from(bytes).toString('base64'))
    }
    case 'rotate':
      await agents[0]?.client.channel(ask.name).rotate()
      return []
  }
}

async function measured(ask: Ask): Promise<Told> {
  const [start, before] = [performance.now(), process.cpuUsage()]
  const keyPackages = await answer(ask)
  const { user, system } = process.cpuUsage(before)
  return { milliseconds: performance.now() - start, cpuMilliseconds: (user + system) / 1000, keyPackages }
}

process.on('message', (ask: Ask) => {
  const failed = (error: unknown): Told => ({
    milliseconds: 0,
    cpuMilliseconds: 0,
    keyPackages: [],
    failure: String(error),
  })
  void measured(ask)
    .catch(failed)
    .then((told) => process.send?.(told))
})
process.on('disconnect', () => process.exit(0))
