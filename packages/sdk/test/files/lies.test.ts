/** What a lying relay gives for a part, busy and blocked ports of files, and traffic profiles that hide transfers. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { ConnectionError } from '@static/node/connection-error'
import { fromHex, toHex } from '@static/protocol'
import type { AgentStore, PartLine, PartReply, PartRequest } from '../../src/ports/index.ts'
import { fileKey, openPart, sealPart } from '../../src/files/file-parts.ts'
import type { ReceivedFile } from '../../src/public/received/received-file.ts'
import { code, NAME, takeEnvelope, TestSystem } from '../support/test-system.ts'
import { directoryFor, hashOf, KIB, MIB } from './support.ts'

type Get = (request: PartRequest, length: number) => Promise<PartReply>

/** A port of files between the agent and the real one. */
class Between implements PartLine {
  line: PartLine | undefined
  readonly gets: number[] = []
  readonly puts: number[] = []
  sending: (bytes: Uint8Array) => void = () => {}
  get_: (get: Get, request: PartRequest, length: number) => Promise<PartReply> = (get, ...asked) => get(...asked)
  put_: (put: () => Promise<PartReply>, request: PartRequest) => Promise<PartReply> = (put) => put()

  async get(request: PartRequest, length: number): Promise<PartReply> {
    this.gets.push(partOf(request))
    return await this.get_((...asked) => this.line!.get(...asked), request, length)
  }

  async put(request: PartRequest, bytes: Uint8Array<ArrayBuffer>): Promise<PartReply> {
    this.puts.push(partOf(request))
    this.sending(bytes)
    return await this.put_(() => this.line!.put(request, bytes), request)
  }

  close(): void {
    this.line?.close()
  }
}

const partOf = ({ path }: PartRequest): number => Number(path.split('/').at(-1))

function at(request: PartRequest, part: number): PartRequest {
  return { ...request, path: request.path.replace(/\d+$/, String(part)) }
}

const done = (bytes: Uint8Array): PartReply => ({ type: 'done', token: undefined, bytes: Uint8Array.from(bytes) })
const bytesOf = (reply: PartReply): Uint8Array => (reply.type === 'done' ? reply.bytes : assert.fail('refused'))
const refused = (status: number, code: string, retryAfterMs?: number): PartReply => ({
  type: 'refused',
  status,
  code,
  message: '',
  retryAfterMs,
})

interface Scene {
  readonly directory: string
  readonly bytes: Buffer
  readonly file: ReceivedFile
  readonly line: Between
  readonly channelId: Uint8Array
  /** Of the files that have arrived. */
  readonly secrets: readonly Uint8Array[]
  /** Sends it again. */
  readonly send: () => Promise<ReceivedFile>
  readonly senderLine: Between
}

/** Tells what a store has written, once it is on disk. */
function watched(real: AgentStore, seen: (changes: Parameters<AgentStore['write']>[0]) => void): AgentStore {
  return new Proxy(real, {
    get: (target, name) => {
      if (name !== 'write') return Reflect.get(target, name).bind(target) as unknown
      return (changes: Parameters<AgentStore['write']>[0]) => {
        target.write(changes)
        seen(changes)
      }
    },
  })
}

async function sceneFor(t: TestContext, size = 2 * MIB + 9): Promise<Scene> {
  const world = await TestSystem.start(t, 'quic', { files: true })
  const directory = directoryFor(t)
  const [line, senderLine] = [new Between(), new Between()]
  const wrapped = (between: Between) => ({
    files: (files: { readonly line: PartLine }) => {
      between.line = files.line
      return { ...files, line: between } as never
    },
  })
  const logged = new Set<string>()
  const alice = await world.agent('alice', {
    ...wrapped(senderLine),
    store: (real) =>
      watched(real, (changes) => {
        for (const change of changes) if (change.type === 'putUploadPart') logged.add(toHex(change.part.digest))
      }),
  })
  // Nothing leaves before its nonce and its hash are on disk.
  senderLine.sending = (bytes) => assert.ok(logged.has(hashOf(bytes)))
  const secrets: Uint8Array[] = []
  const store = (real: AgentStore): AgentStore =>
    watched(real, (changes) => {
      for (const change of changes)
        if (change.type === 'putFile' && !change.record.isDone) secrets.push(change.record.secret)
    })
  const bob = await world.agent('bob', { ...wrapped(line), store })
  const [a, b] = await world.channel(alice, [bob])
  const path = join(directory, 'sent')
  const bytes = randomBytes(size)
  writeFileSync(path, bytes)
  const send = async (): Promise<ReceivedFile> => {
    await a!.sendFile(path)
    return (await takeEnvelope(b!)).file ?? assert.fail()
  }
  return { directory, bytes, file: await send(), line, channelId: fromHex(a!.id), secrets, send, senderLine }
}

test('a part that is not the signed one is fetched once more, then refused, and nothing of it is released', async (t) => {
  const { directory, bytes, file, line, send } = await sceneFor(t)
  const other = await send()
  // The relay gives each part once: an agent may fetch a file four times an hour.
  const known = new Map<string, PartReply>()
  const genuine: Get = async (request, length) => {
    const reply = known.get(request.path) ?? (await line.line!.get(request, length))
    known.set(request.path, reply)
    // The agent frees what it gets.
    return done(bytesOf(reply))
  }
  const lies: Readonly<Record<string, Get>> = {
    changed: async (request, length) => done(bytesOf(await genuine(request, length)).with(20, 0)),
    'another one of the file': async (request, length) => await genuine(at(request, 0), length),
    'the same part of another file': async (request, length) =>
      await genuine({ ...request, path: request.path.replace(file.id, other.id) }, length),
    zeros: (_request, length) => Promise.resolve(done(new Uint8Array(length))),
  }
  for (const [about, lie] of Object.entries(lies)) {
    const target = join(directory, `target of ${about}`)
    // Part 0 is right: it may be released, but nothing after it.
    line.get_ = async (_get, request, length) =>
      partOf(request) === 1 ? await lie(request, length) : await genuine(request, length)
    const got: Uint8Array[] = []
    const read = async (): Promise<void> => {
      for await (const chunk of file.stream()) got.push(chunk)
    }
    line.gets.length = 0
    await assert.rejects(read(), code('file_corrupt', /part 1/), about)
    assert.equal(Buffer.concat(got).compare(bytes.subarray(0, MIB)), 0, about)
    assert.equal(line.gets.filter((part) => part === 1).length, 2, about)
    await assert.rejects(file.save(target), code('file_corrupt'), about)
    assert.ok(!existsSync(target), about)
    assert.equal(readFileSync(`${target}.part`).compare(bytes.subarray(0, MIB)), 0, about)
    assert.equal(file.name, 'sent')
  }
  // A lie is refused, not the file.
  let lied = false
  line.get_ = async (_get, request, length) => {
    if (lied || partOf(request) !== 1) return await genuine(request, length)
    lied = true
    return done(new Uint8Array(length))
  }
  const target = join(directory, 'target')
  assert.equal(await file.save(target), target)
  assert.ok(lied)
  assert.equal(readFileSync(target).compare(bytes), 0)
  // Only what the last call was saving to is left of the others: nothing.
  assert.deepEqual(readdirSync(directory).toSorted(), ['sent', 'target'])
})

test('a relay with a member that knows the key cannot replace a part', async (t) => {
  const { file, line, directory, secrets, channelId } = await sceneFor(t, 10)
  const names = { fileId: fromHex(file.id), secret: secrets.at(-1) ?? assert.fail('no secret') }
  const forged = await sealPart(await fileKey(channelId, names), 0, new Uint8Array(12), new Uint8Array(64 * KIB))
  assert.equal((await openPart(await fileKey(channelId, names), 10, 0, forged.bytes)).length, 10)
  line.get_ = () => Promise.resolve(done(forged.bytes))
  await assert.rejects(file.save(directory), code('file_corrupt'))
})

test('lost connections, expired tokens and busy relays are waited out; blocked ports and refusals are not', async (t) => {
  const { file, line, directory, bytes, senderLine, send } = await sceneFor(t)
  const troubles = [
    () => Promise.reject(new ConnectionError('closed', 'The connection was lost.')),
    () => Promise.resolve(refused(401, 'auth_failed')),
    () => Promise.resolve(refused(429, 'rate_limited', 10)),
    () => Promise.resolve(refused(503, 'unavailable', 10)),
    () => Promise.resolve(refused(502, '', 10)),
  ]
  let left = [...troubles]
  line.get_ = async (get, request, length) => await (left.shift()?.() ?? get(request, length))
  const target = await file.save(join(directory, 'target'))
  assert.equal(readFileSync(target).compare(bytes), 0)
  assert.equal(left.length, 0)
  left = [...troubles]
  senderLine.put_ = async (put) => await (left.shift()?.() ?? put())
  const again = await send()
  assert.equal(left.length, 0)

  line.get_ = () => Promise.resolve(refused(429, 'rate_limited', 3_000_000))
  await assert.rejects(again.save(directory), code('rate_limited'))
  line.get_ = () => Promise.resolve(refused(409, 'file_incomplete'))
  await assert.rejects(again.save(directory), code('file_incomplete'))
  line.get_ = () => Promise.resolve(refused(302, ''))
  await assert.rejects(again.save(directory), code('transport_error'))
  senderLine.put_ = () => Promise.resolve(refused(429, 'quota_exceeded'))
  await assert.rejects(send(), code('quota_exceeded'))
  // The upload goes on where it stopped.
  senderLine.put_ = (put) => put()
  senderLine.puts.length = 0
  await (await send()).drop()
  line.get_ = () => Promise.resolve(refused(410, 'file_expired'))
  await assert.rejects(again.save(directory), code('file_expired'))
  await assert.rejects(again.drop(), code('file_expired'))
})

test('agents whose profile hides when they send refuse files, unless they are opened visibly', async (t) => {
  const world = await TestSystem.start(t, 'quic', { files: true })
  const directory = directoryFor(t)
  const path = join(directory, 'sent')
  writeFileSync(path, 'hidden')
  const alice = await world.agent('alice', { traffic: 'private' })
  let bob = await world.agent('bob', { traffic: 'private' })
  const [a, b] = await world.channel(alice, [bob])
  await assert.rejects(a!.sendFile(path), code('not_allowed', /visibleFiles/))
  await alice.close()
  const visible = { files: (files: object) => ({ ...files, visible: true }) as never, traffic: 'private' } as const
  const again = (await world.agent('alice', visible)).channel(NAME)
  await again.sendFile(path)
  const { file = assert.fail() } = await takeEnvelope(b!)
  await assert.rejects(file.save(directory), code('not_allowed'))
  await bob.close()
  bob = await world.agent('bob', visible)
  const [listed = assert.fail()] = bob.channel(NAME).files()
  assert.deepEqual([listed.id, listed.name], [file.id, 'sent'])
  assert.equal(readFileSync(await listed.save(join(directory, 'saved')), 'utf8'), 'hidden')
})
