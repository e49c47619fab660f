/**
 * A reader of the paired bench: one client for each way. It echoes the messages of round trips and says when the last
 * message of a burst has come.
 */
import { once } from 'node:events'
import { join } from 'node:path'
import { StaticClient } from '@static/sdk'
import { channelName, type Connections, MARKS, type Way } from './messages.ts'

interface Options {
  readonly directory: string
  readonly name: string
  readonly connections: Connections
  readonly channels: readonly ('one' | 'ten')[]
}

const { directory, name, connections, channels } = JSON.parse(process.argv[2] ?? '{}') as Options
process.on('disconnect', () => process.exit(0))

const clients = new Map<string, StaticClient>()
const keyPackages: Record<string, string> = {}
for (const [way, connection] of Object.entries(connections)) {
  const identity = `${name}-${way}`
  const client = await StaticClient.connect({ ...connection, dataDir: join(directory, identity), identity })
  for (const channel of channels) {
    clients.set(channelName(way as Way, channel), client)
    keyPackages[channelName(way as Way, channel)] = Buffer.from(await client.generateKeyPackage()).toString('base64')
  }
}
process.send?.({ keyPackages })

const [welcomes] = (await once(process, 'message')) as [Record<string, string>]
for (const [channel, welcome] of Object.entries(welcomes)) void read(channel, Buffer.from(welcome, 'base64'))

async function read(channelOf: string, welcome: Uint8Array): Promise<void> {
  const channel = await clients.get(channelOf)?.joinChannel(channelOf, welcome)
  if (!channel) throw new Error(`No client for ${channelOf}.`)
  process.send?.({ joined: channelOf })
  const { staticHop } = globalThis as { staticHop?: (hop: string) => void }
  for await (const payload of channel.messages()) {
    staticHop?.('application')
    if (payload[0] === MARKS.echo) await channel.send(payload)
    if (payload[0] === MARKS.last) process.send?.({ last: channelOf })
  }
}
