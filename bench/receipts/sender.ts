/** The sender of the receipts bench: the only one that asks for receipts. */
import { type Channel, type ClientOptions, StaticClient } from '@static/sdk'
import { type Ask, PAYLOAD_BYTES, type Told } from '../agent/messages.ts'
import { ownCpu, serve } from '../agent/serve.ts'

const { reads, ...options } = JSON.parse(process.argv[2] ?? '{}') as ClientOptions & { readonly reads: boolean }
const client = await StaticClient.connect(options)
let channel: Channel | undefined

function created(): Channel {
  if (!channel) throw new Error('There is no channel.')
  return channel
}

/** Sends this many and returns the index of the last: the number of entries in the log. */
async function send(count: number, window: number): Promise<number> {
  const payload = new Uint8Array(PAYLOAD_BYTES).fill(7)
  let [left, last] = [count, 0]
  const lane = async (): Promise<void> => {
    while (left-- > 0) last = Math.max(last, (await created().send(payload)).index)
  }
  await Promise.all(Array.from({ length: window }, lane))
  return last
}

async function answer(ask: Ask): Promise<Told> {
  const before = ownCpu()
  switch (ask.type) {
    case 'create':
      channel = await client.createChannel(ask.name)
      return { type: 'done', cpu: ownCpu() - before }
    case 'add': {
      const welcomes = await created().addMembers(ask.keyPackages.map((bytes) => Buffer.from(bytes, 'base64')))
      if (reads) await created().receipts()
      return { type: 'welcomes', base64: welcomes.map((bytes) => Buffer.from(bytes).toString('base64')) }
    }
    case 'send': {
      const last = await send(ask.count, ask.window)
      return { type: 'times', times: [last, ownCpu() - before] }
    }
    default:
      throw new Error(`The sender does not ${ask.type}.`)
  }
}

serve(answer, () => client.close())
