/** Many agents of the receipts bench in one process, which receive what one sends them. */
import { join } from 'node:path'
import { type Channel, type ClientOptions, StaticClient } from '@static/sdk'
import type { Ask, Told } from '../agent/messages.ts'
import { ownCpu, serve } from '../agent/serve.ts'

interface CrowdOptions {
  readonly members: number
  readonly dataDir: string
  readonly client: ClientOptions
  /** Whether every agent asks for the receipts of all others. */
  readonly allRead: boolean
}

const { members, dataDir, client: options, allRead } = JSON.parse(process.argv[2] ?? '{}') as CrowdOptions
const clients: StaticClient[] = []
for (let at = 0; at < members; at++) {
  const identity = `member-${at}`
  clients.push(await StaticClient.connect({ ...options, identity, dataDir: join(dataDir, identity) }))
}
let channels: readonly Channel[] = []

async function receive(channel: Channel, count: number): Promise<void> {
  let received = 0
  for await (const envelope of channel.envelopes()) if (++received === count) return envelope.settle()
}

async function answer(ask: Ask): Promise<Told> {
  const before = ownCpu()
  switch (ask.type) {
    case 'keyPackage': {
      const made: string[] = []
      for (const client of clients) made.push(Buffer.from(await client.generateKeyPackage()).toString('base64'))
      return { type: 'welcomes', base64: made }
    }
    case 'join': {
      const welcomes = ask.welcome.split(' ')
      const joining = clients.map((client, at) =>
        client.joinChannel(ask.name, Buffer.from(welcomes[at] ?? '', 'base64')),
      )
      channels = await Promise.all(joining)
      if (allRead) await Promise.all(channels.map((channel) => channel.receipts()))
      return { type: 'done', cpu: ownCpu() - before }
    }
    case 'receive':
      await Promise.all(channels.map((channel) => receive(channel, ask.count)))
      return { type: 'done', cpu: ownCpu() - before }
    default:
      throw new Error(`The crowd does not ${ask.type}.`)
  }
}

serve(answer, async () => {
  for (const client of clients) await client.close()
})
