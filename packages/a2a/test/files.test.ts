/** Parts that are too large for a message: sent as files of the channel, and put back at the other side. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, test } from 'node:test'
import { Message, SendMessageRequest } from '@a2a-js/sdk'
import { AgentEvent, type AgentExecutor, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server'
import { a2aTransport, serveA2A } from '../src/index.ts'
import { FileTurns } from '../src/files.ts'
import { makeCard } from './card.ts'
import { channelOf, openPlace } from './support.ts'

const NAME = 'acme/a2a/files'
const place = await openPlace({ files: true })
const client = await place.agent('client')
const server = await place.agent('server')
const other = await place.agent('other')
const [asking, serving, beside] = await channelOf(NAME, client, server, other)
/** The parts that the server's program got. */
const got: unknown[][] = []
const executor: AgentExecutor = {
  execute: async ({ userMessage }, bus) => {
    const { parts } = Message.toJSON(userMessage) as { parts: unknown[] }
    got.push(parts)
    const message = { messageId: crypto.randomUUID(), role: 'ROLE_AGENT', parts }
    bus.publish(AgentEvent.message(Message.fromJSON(message)))
    bus.finished()
  },
  cancelTask: async () => {},
}
const card = makeCard(NAME, server.agentId)
const served = serveA2A(serving!, new DefaultRequestHandler(card, new InMemoryTaskStore(), executor))
after(async () => {
  serving!.close()
  await served
  await place[Symbol.asyncDispose]()
})
const transport = await a2aTransport(asking!, { to: server.agentId }).create('static:', card)

/** Sends parts, and returns those that come back. */
async function echo(parts: readonly object[]): Promise<unknown[]> {
  const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts }
  const options = { serviceParameters: { 'A2A-Version': '1.0' } }
  const result = await transport.sendMessage(SendMessageRequest.fromJSON({ message }), options)
  return (Message.toJSON(result as Message) as { parts: unknown[] }).parts
}

/** The names of the files that a channel still offers. */
const names = (channel: typeof asking): string[] => (channel?.files() ?? []).map(({ name }) => name)

test('raw parts of any size arrive as they were sent, both ways, and no file stays', async () => {
  const raw = (size: number): string => randomBytes(size).toString('base64')
  const large = { raw: raw(1_300_000), filename: 'build.tar', mediaType: 'application/x-tar' }
  const parts = [{ text: 'two files' }, { raw: raw(1000), filename: 'small' }, large, { raw: raw(65_537) }]
  const back = await echo(parts)
  assert.deepEqual(
    got.pop()?.map((part) => (part as { raw?: string }).raw),
    parts.map((part) => ('raw' in part ? part.raw : undefined)),
  )
  assert.deepEqual(
    back.map((part) => (part as { raw?: string }).raw),
    parts.map((part) => ('raw' in part ? part.raw : undefined)),
  )
  const [, , again] = back as { filename?: string; mediaType?: string }[]
  assert.deepEqual([again?.filename, again?.mediaType], ['build.tar', 'application/x-tar'])
  assert.deepEqual([names(asking), names(serving)], [[], []])
})

test('a file of another member, and an unknown one, is not put in place of a part', async () => {
  await beside!.sendFile(
    (async function* () {
      yield Buffer.from('of another member')
    })(),
    { name: 'other' },
  )
  await serving!.catchUp()
  const [file] = serving!.files()
  assert.equal(file?.name, 'other')
  const urls = [`static-file:${file.id}`, `static-file:${'0'.repeat(32)}`, 'static-file:x', 'https://example.com/a']
  const back = await echo(urls.map((url) => ({ url })))
  assert.deepEqual(
    back.map((part) => (part as { url?: string }).url),
    urls,
  )
  assert.deepEqual(names(serving), ['other'])
})

test('few calls with files are handled at once, and no member takes all places', async () => {
  const turns = new FileTurns()
  const begun: string[] = []
  const take = async (name: string): Promise<() => void> => {
    const over = await turns.take(name.slice(0, 1))
    begun.push(name)
    return over
  }
  const calls = ['a1', 'a2', 'a3', 'b1', 'c1', 'c2', 'a4'].map((name) => take(name))
  await new Promise(setImmediate)
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'c1'])
  const overA = await calls[0]!
  overA()
  overA()
  await new Promise(setImmediate)
  assert.deepEqual(begun.slice(4), ['a3'])
  ;(await calls[3]!)()
  await new Promise(setImmediate)
  assert.deepEqual(begun.slice(5), ['c2'])
})
