/**
 * One side of `npm run bench -- a2a`, in its own process. The server offers the same agent over a channel and over HTTPS;
 * the client calls it over both in turns, and tells its parent how long that took.
 */
import { SendMessageRequest } from '@a2a-js/sdk'
import { JsonRpcTransportFactory, type RequestOptions, type Transport } from '@a2a-js/sdk/client'
import { type ClientOptions, StaticClient } from '@static/sdk'
import { a2aTransport, serveA2A } from '../src/index.ts'
import { makeAgent, messageOf, serveHttps, trustTestServers } from './support.ts'

/** What the parent says when it starts one. */
interface Party {
  readonly role: 'client' | 'server'
  readonly options: ClientOptions
  readonly name: string
  /** The agent id of the server, and where it is over HTTPS. */
  readonly to: string
  readonly url: string
  readonly rounds: number
}

const CALLS = 200
const MANY = 1000
const AT_ONCE = 50
const OPTIONS: RequestOptions = { serviceParameters: { 'A2A-Version': '1.0' } }

const { role, options, name, to, url, rounds } = JSON.parse(process.argv[2] ?? '{}') as Party
const client = await StaticClient.connect(options)
const channel = client.channel(name)
const agent = makeAgent(name, to)
process.on('disconnect', () => void client.close().finally(() => process.exit(0)))
if (role === 'server') {
  const https = await serveHttps(agent)
  process.send?.({ url: https.url })
  await serveA2A(channel, agent.handler)
} else {
  await trustTestServers()
  const overChannel = await a2aTransport(channel, { to }).create('static:', agent.card)
  const overHttps = await new JsonRpcTransportFactory().create(url, agent.card)
  for (let round = 0; round < rounds; round++) {
    const [inChannel, inHttps] = [await measured(overChannel), await measured(overHttps)]
    process.send?.({ channel: inChannel, https: inHttps })
  }
  process.send?.('done')
}

/** p50 of a call in milliseconds, one after the other, and calls a second, many at once. */
async function measured(transport: Transport): Promise<{ readonly p50: number; readonly perSecond: number }> {
  const call = async (): Promise<void> => {
    const message = { ...messageOf('message'), role: 'ROLE_USER', parts: [{ text: 'message' }] }
    await transport.sendMessage(SendMessageRequest.fromJSON({ message }), OPTIONS)
  }
  const times: number[] = []
  for (let at = 0; at < CALLS; at++) {
    const start = performance.now()
    await call()
    times.push(performance.now() - start)
  }
  const start = performance.now()
  let left = MANY
  const lane = async (): Promise<void> => {
    while (left-- > 0) await call()
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  const perSecond = Math.round((MANY * 1000) / (performance.now() - start))
  const p50 = times.toSorted((a, b) => a - b)[CALLS / 2] ?? 0
  return { p50: Number(p50.toFixed(2)), perSecond }
}
