/** Files at a whole relay: from BeginFile to DropFile, and over a restart. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { type IncomingMessage } from 'node:http'
import { request as requestHttp1 } from 'node:https'
import { join } from 'node:path'
import { test } from 'node:test'
import { filePartBytes, filePartCount, toHex } from '@static/protocol'
import { Agent, refusal } from '@static/testkit/agent'
import { startTestRelay, type TestRelay } from '@static/testkit/relay'

const SIZE = 1_310_720

interface Answered {
  readonly status: number
  readonly body: Buffer
}

/** A relay with a file of one member for another. */
class Scene {
  readonly relay: TestRelay
  readonly jwt: string
  readonly owner: Agent
  readonly member: Agent
  readonly channelId: Uint8Array
  readonly fileId = new Uint8Array(randomBytes(16))
  readonly parts = Array.from({ length: filePartCount(SIZE) }, (_, part) => randomBytes(filePartBytes(SIZE, part)))
  token = ''

  constructor(relay: TestRelay, jwt: string, owner: Agent, member: Agent, channelId: Uint8Array) {
    this.relay = relay
    this.jwt = jwt
    this.owner = owner
    this.member = member
    this.channelId = channelId
  }

  static async open(relay: TestRelay): Promise<Scene> {
    const jwt = relay.api.token('acme')
    const owner = await Agent.connect(relay.wire(), { jwt })
    const channelId = await owner.createChannel('acme/x/y')
    const member = await Agent.connect(relay.wire())
    await owner.commit(channelId, 0n, { adds: [member.id] })
    return new Scene(relay, jwt, owner, member, channelId)
  }

  /** The port that agents are told: that of the proxy, if there is one. */
  get filesPort(): number {
    return this.relay.proxyFilesPort || this.relay.filesPort
  }

  get name(): { channelId: Uint8Array; fileId: Uint8Array; visible: boolean } {
    const { channelId, fileId } = this
    return { channelId, fileId, visible: false }
  }

  async begin(owner = this.owner): Promise<number[]> {
    const { state, sessionToken } = await owner.request('beginFile', { ...this.name, size: BigInt(SIZE) })
    this.token = sessionToken
    return [...(state?.parts ?? [])]
  }

  send(owner = this.owner): Promise<unknown> {
    const { channelId, fileId } = this
    const fields = { channelId, slot: 1n, counter: 1n, ciphertext: randomBytes(64), messageId: randomBytes(16), fileId }
    return owner.request('sendMessage', fields)
  }

  async part(method: 'PUT' | 'GET', part: number, body?: Uint8Array, token = this.token): Promise<Answered> {
    const path = `/v1/files/${toHex(this.channelId)}/${toHex(this.fileId)}/${part}`
    const {
      relay: { ca },
      filesPort: port,
    } = this
    const length = body && { 'content-length': String(body.length) }
    const headers = { 'static-session': token, ...length }
    const request = requestHttp1({ host: 'localhost', port, ca, agent: false, method, path, headers })
    request.end(body)
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, body: Buffer.concat((await response.toArray()) as Buffer[]) }
  }

  /** The metrics about files, without their descriptions. */
  async metrics(): Promise<string[]> {
    const { ca, grpcPort: port } = this.relay
    const request = requestHttp1({ host: 'localhost', port, ca, agent: false, path: '/metrics' })
    request.end()
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const text = Buffer.concat((await response.toArray()) as Buffer[]).toString()
    return text.split('\n').filter((line) => line.startsWith('static_relay_file'))
  }

  /** The directories of files on the relay's disk. */
  onDisk(): string[] {
    const root = join(this.relay.directory, 'files')
    if (!existsSync(root)) return []
    return readdirSync(root).flatMap((prefix) => readdirSync(join(root, prefix)))
  }
}

for (const way of ['quic', 'grpc', 'proxy'] as const) {
  test(`${way}: a file goes through a relay, part by part, until it was dropped`, async (t) => {
    const relay = await startTestRelay(way, { files: true })
    t.after(() => relay.close())
    const scene = await Scene.open(relay)
    const { owner, member } = scene
    assert.equal(owner.opened?.filesPort, scene.filesPort)
    assert.deepEqual(await scene.begin(), [0])
    assert.equal((await scene.part('PUT', 1, scene.parts[1])).status, 204)
    await assert.rejects(scene.send(), refusal('file_incomplete'))
    assert.equal((await scene.part('PUT', 0, scene.parts[0])).status, 204)
    await scene.send()
    const { sessionToken } = await member.request('fileStatus', scene.name)
    for (const [at, part] of scene.parts.entries()) {
      const { status, body } = await scene.part('GET', at, undefined, sessionToken)
      assert.deepEqual([status, Buffer.compare(body, part)], [200, 0])
    }
    assert.equal(scene.onDisk().length, 1)
    const metrics = await scene.metrics()
    assert.ok(metrics.includes('static_relay_files_open 1') && metrics.length === 7, metrics.join(' '))
    await member.request('dropFile', { channelId: scene.channelId, fileId: scene.fileId, everyone: false })
    assert.equal((await scene.part('GET', 0, undefined, sessionToken)).status, 410)
    await assert.rejects(member.request('fileStatus', scene.name), refusal('file_expired'))
  })
}

test('an upload goes on after a restart of the relay, with what was stored', async (t) => {
  const relay = await startTestRelay('quic', { files: true })
  t.after(() => relay.close())
  const scene = await Scene.open(relay)
  await scene.begin()
  assert.equal((await scene.part('PUT', 1, scene.parts[1])).status, 204)
  await relay.restart()
  const owner = await Agent.connect(relay.wire(), { key: scene.owner.key, jwt: scene.jwt })
  assert.deepEqual(await scene.begin(owner), [2])
  assert.equal((await scene.part('PUT', 1, scene.parts[1])).status, 204)
  assert.equal((await scene.part('PUT', 0, scene.parts[0])).status, 204)
  await scene.send(owner)
})

test('a relay without files names no port and refuses every request about them', async (t) => {
  const relay = await startTestRelay('quic')
  t.after(() => relay.close())
  const scene = await Scene.open(relay)
  assert.equal(scene.owner.opened?.filesPort, 0)
  await assert.rejects(scene.begin(), refusal('files_unavailable'))
})
