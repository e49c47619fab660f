/** A bare program that sends and fetches the parts of a file by HTTPS, in a process of its own. */
import { once } from 'node:events'
import { open as openFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import type { Told } from '../agent/messages.ts'
import { ownCpu, serve } from '../agent/serve.ts'
import { AT_ONCE, open, PART_BYTES, seal, STORED_BYTES } from './transfer.ts'

/** As often as an agent makes durable what it has saved. */
const SYNC_EVERY = 16

const { port, ca, parts } = JSON.parse(process.argv[2] ?? '{}') as { port: number; ca: string; parts: number }
const agent = new Agent({ ca, keepAlive: true, maxSockets: AT_ONCE, servername: 'localhost', minVersion: 'TLSv1.3' })

async function ask(method: 'GET' | 'PUT', part: number, body?: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const headers = body ? { 'content-length': body.length } : {}
  const sent = request({ agent, host: '127.0.0.1', port, method, path: `/${part}`, headers })
  sent.end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const bytes = new Uint8Array(method === 'GET' ? STORED_BYTES : 0)
  let at = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  if (at !== bytes.length) throw new Error(`A part has ${at} bytes.`)
  return bytes
}

/** Works on all parts, several at a time. */
async function all(work: (part: number) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < parts) await work(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}

async function send(path: string): Promise<void> {
  const file = await openFile(path)
  await all(async (part) => {
    const plaintext = new Uint8Array(PART_BYTES)
    await file.read(plaintext, 0, PART_BYTES, part * PART_BYTES)
    await ask('PUT', part, await seal(plaintext))
  })
  await file.close()
}

async function save(path: string): Promise<void> {
  const file = await openFile(path, 'w')
  let saved = 0
  await all(async (part) => {
    await file.write(await open(await ask('GET', part)), 0, PART_BYTES, part * PART_BYTES)
    if (++saved % SYNC_EVERY === 0) await file.sync()
  })
  await file.sync()
  await file.close()
}

serve(async (question): Promise<Told> => {
  const before = ownCpu()
  if (question.type === 'sendFile') await send(question.path)
  else if (question.type === 'saveFile') await save(question.path)
  else throw new Error(`A bare program does not ${question.type}.`)
  return { type: 'done', cpu: ownCpu() - before }
})
