/** A TypeScript agent for the Python tests: creates or joins a channel, echoes messages, prints its verify words. */
import { createInterface } from 'node:readline'
import { type ClientOptions, StaticChannelManager } from '@static/sdk'

interface Ask {
  readonly options: ClientOptions
  readonly name: string
  /** The token to join with; without it the channel is created. */
  readonly token?: string
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const first = await lines.next()
const { options, name, token } = JSON.parse(String(first.value)) as Ask
await using manager = await StaticChannelManager.connect(options)
const channel = token === undefined ? await manager.create(name) : await manager.joinWithToken(name, token)
console.log(token === undefined ? await manager.invite(name) : 'joined')

async function echo(): Promise<void> {
  for await (const payload of channel.messages()) await channel.send(payload)
}
const echoing = echo()
for await (const _ of { [Symbol.asyncIterator]: () => lines }) console.log(channel.verify())
channel.close()
await echoing
