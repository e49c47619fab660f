/**
 * Readers in a process of their own, which the test stops in the middle and lets go on: then they find their sessions
 * closed, dial again and take everything from where they were.
 */
import { Agent, makeKey } from '@static/testkit/agent'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'

/** What the process is told. */
export interface ReadersOptions {
  readonly ports: { readonly grpc: number; readonly quic: number }
  readonly ca: string
  readonly jwt: string
  /** Of each kind. */
  readonly count: number
}

/** What it is asked: to take the channel up; then, when it was stopped, to catch up to an index. */
export type ReadersQuestion =
  | { readonly type: 'resume'; readonly channel: string }
  | { readonly type: 'catchUp'; readonly last: string }

const { ports, ca, jwt, count } = JSON.parse(process.argv[2] ?? '') as ReadersOptions
const wires = [() => quicWire({ port: ports.quic, ca }), () => grpcWire({ port: ports.grpc, ca })]
const readers: { agent: Agent; readonly wire: () => ReturnType<typeof quicWire>; start: bigint }[] = []
for (let at = 0; at < 2 * count; at++) {
  const wire = wires[at % 2] ?? wires[0]!
  const agent = await Agent.connect(wire(), { key: makeKey(), jwt })
  await agent.request('resume', {})
  readers.push({ agent, wire, start: 0n })
}
let channelId = new Uint8Array()

process.on('message', (question: ReadersQuestion) => void answer(question).then((said) => process.send?.(said)))
process.on('disconnect', () => process.exit(0))
process.send?.(readers.map(({ agent }) => Buffer.from(agent.id).toString('hex')))

async function answer(question: ReadersQuestion): Promise<object> {
  if (question.type === 'resume') {
    channelId = Uint8Array.from(Buffer.from(question.channel, 'hex'))
    for (const reader of readers) {
      reader.start = (await reader.agent.next('deliverWelcome')).position?.index ?? 0n
      await reader.agent.request('resume', { channelIds: [channelId] })
    }
    return {}
  }
  const last = BigInt(question.last)
  return Promise.all(readers.map((reader) => catchUp(reader, last)))
}

/** Acknowledges what it has, dials again, and reads on; tells what came in all. */
async function catchUp(reader: (typeof readers)[number], last: bigint): Promise<object> {
  const { agent: before, wire } = reader
  await before.ended
  const indexes: bigint[] = []
  const take = (agent: Agent): void => {
    for (const { body } of agent.pushes.splice(0)) if (body.case === 'deliverMessage') indexes.push(body.value.index)
  }
  const closing = before.pushes.find(({ body }) => body.case === 'sessionClosing')
  take(before)
  const seen = indexes.length
  const agent = await Agent.connect(wire(), { key: before.key, jwt })
  await agent.request('ack', { positions: [{ channelId, index: indexes.at(-1) ?? reader.start }] })
  await agent.request('resume', { channelIds: [channelId] })
  await agent.until(() => {
    take(agent)
    return (indexes.at(-1) ?? 0n) >= last
  })
  agent.close()
  await agent.ended
  const whole = indexes.every((index, at) => index === reader.start + 1n + BigInt(at))
  return { form: agent.form, seen, all: indexes.length, whole, told: closing?.body.case ?? '' }
}
