/** One agent of the bench, in a process of its own: carries out orders and reports what they cost. */
import { type Channel, StaticClient } from '@static/sdk'
import { type Ask, PAYLOAD_BYTES, type Told } from './messages.ts'
import { ownCpu, serve } from './serve.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as Parameters<typeof StaticClient.connect>[0]
const client = await StaticClient.connect(options)
let channel: Channel | undefined
let echoing: Promise<void> | undefined

function joined(): Channel {
  if (!channel) throw new Error('The agent is in no channel.')
  return channel
}

/** Sends this many messages, one window at a time. */
async function send(count: number, window: number): Promise<void> {
  const payload = new Uint8Array(PAYLOAD_BYTES).fill(7)
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) await joined().send(payload)
  }
  await Promise.all(Array.from({ length: window }, lane))
}

async function receive(count: number): Promise<void> {
  let received = 0
  for await (const envelope of joined().envelopes()) if (++received === count) return envelope.settle()
}

async function echo(): Promise<void> {
  for await (const payload of joined().messages()) await joined().send(payload)
}

/** Echoes without waiting for the relay's answer to each. */
async function echoAtOnce(): Promise<void> {
  const sending: Promise<unknown>[] = []
  for await (const payload of joined().messages()) sending.push(joined().send(payload))
  await Promise.all(sending)
}

/** Round trips, one after the other, in milliseconds. */
async function roundTrips(count: number): Promise<number[]> {
  const payload = new Uint8Array(PAYLOAD_BYTES).fill(7)
  const times: number[] = []
  const envelopes = joined().envelopes()
  for (let at = 0; at < count; at++) {
    const start = performance.now()
    const [, { value }] = await Promise.all([joined().send(payload), envelopes.next()])
    times.push(performance.now() - start)
    value?.settle()
  }
  await envelopes.return?.()
  return times
}

/** Sends this many messages: one window, then the next message whenever one comes back. */
async function exchange(count: number, window: number): Promise<void> {
  const payload = new Uint8Array(PAYLOAD_BYTES).fill(7)
  const sending: Promise<unknown>[] = []
  const envelopes = joined().envelopes()
  const next = (): unknown => sending.length < count && sending.push(joined().send(payload))
  for (let at = 0; at < window; at++) next()
  for (let received = 0; received < count; received++) {
    const { value } = await envelopes.next()
    value?.settle()
    next()
  }
  await Promise.all(sending)
}

/** Sends this many requests to the other members, one window at a time. Returns how long each took, in milliseconds. */
async function requests(count: number, window: number): Promise<number[]> {
  const payload = new Uint8Array(PAYLOAD_BYTES).fill(7)
  const times: number[] = []
  const to = joined()
    .members()
    .find(({ agentId }) => agentId !== client.agentId)?.agentId
  if (to === undefined) throw new Error('There is nobody to ask.')
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const start = performance.now()
      for await (const answer of joined().ask(payload, { to }))
        if (answer.payload.length === 0) throw new Error('Empty')
      times.push(performance.now() - start)
    }
  }
  await Promise.all(Array.from({ length: window }, lane))
  return times
}

async function answer(ask: Ask): Promise<Told> {
  const before = ownCpu()
  switch (ask.type) {
    case 'keyPackage':
      return { type: 'bytes', base64: Buffer.from(await client.generateKeyPackage()).toString('base64') }
    case 'create':
      channel = await client.createChannel(ask.name)
      return { type: 'done', cpu: ownCpu() - before }
    case 'add': {
      const welcomes = await joined().addMembers(ask.keyPackages.map((bytes) => Buffer.from(bytes, 'base64')))
      return { type: 'welcomes', base64: welcomes.map((bytes) => Buffer.from(bytes).toString('base64')) }
    }
    case 'join':
      channel = await client.joinChannel(ask.name, Buffer.from(ask.welcome, 'base64'))
      return { type: 'done', cpu: ownCpu() - before }
    case 'send':
      await send(ask.count, ask.window)
      return { type: 'done', cpu: ownCpu() - before }
    case 'receive':
      await receive(ask.count)
      return { type: 'done', cpu: ownCpu() - before }
    case 'sendFile':
      await joined().sendFile(ask.path)
      return { type: 'done', cpu: ownCpu() - before }
    case 'saveFile':
      await joined().files().at(-1)?.save(ask.path)
      return { type: 'done', cpu: ownCpu() - before }
    case 'echo':
      echoing = echo()
      return { type: 'done', cpu: 0 }
    case 'echoAtOnce':
      echoing = echoAtOnce()
      return { type: 'done', cpu: 0 }
    case 'exchange':
      await exchange(ask.count, ask.window)
      return { type: 'done', cpu: ownCpu() - before }
    case 'stopEcho':
      joined().close()
      await echoing
      return { type: 'done', cpu: 0 }
    case 'serve':
      echoing = joined().serve(async (request) => request.payload, { perAsker: 64 })
      return { type: 'done', cpu: 0 }
    case 'requests':
      return { type: 'times', times: await requests(ask.count, ask.window) }
    case 'roundTrips':
      return { type: 'times', times: await roundTrips(ask.count) }
  }
}

serve(answer, () => client.close())
