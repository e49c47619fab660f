/**
 * kill -9 of a relay while it stores parts of files: before, between and after their bytes and their records. What it
 * has answered is there; at most the parts under way are sent again; nothing stays without a record.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { filePartBytes, filePartCount, StaticError, toHex } from '@static/protocol'
import { Agent } from '@static/testkit/agent'
import { grpcWire } from '@static/testkit/agent/wires'
import type { FailAt } from '@static/testkit/crash/store-steps'
import { makeKey } from '@static/testkit/agent'
import { quietPort } from '@static/testkit/ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import { type RelayChild, RelayHome } from '@static/testkit/relay/process'
import { rcloneProgram, startRclone } from '@static/testkit/s3'
import { openParts } from '../../src/files/open-parts.ts'
import { FileSweeper } from '../../src/files/sweeper.ts'
import type { S3Access } from '../../src/options.ts'
import type { Parts, Store } from '../../src/ports.ts'
import { openPostgresStore } from '../../src/store/postgres/store.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { IS_WHOLE } from '@static/testkit/whole'
import { RETENTION } from '../store/channel-fixture.ts'
import { makeScratch } from '../support/postgres.ts'

/** More with STATIC_LONG=1 (`npm run proof -- files`). */
const IS_LONG = process.env['STATIC_LONG'] === '1'
const KILLS = Number(process.env['STATIC_KILLS'] ?? (IS_LONG ? 100 : 3))
const FILES = Math.ceil(KILLS / 2)
/** Two parts: 1 MiB and 256 KiB. */
const SIZE = 1_310_720
const UNDER_WAY = 2
const DAY = 86_400_000
const TRIES = 400
const STEPS = ['before_begin', 'after_insert_before_commit', 'after_commit_before_answer'] as const

/** A file on its way from the sender. */
interface Upload {
  readonly id: Uint8Array
  readonly parts: readonly Buffer[]
}

/** A relay that is killed and started again, with a sender and a receiver. */
class Scene {
  readonly home: RelayHome
  readonly random: () => number
  readonly start: (failAt: FailAt | undefined) => Promise<RelayChild>
  readonly keys = { owner: makeKey(), member: makeKey() }
  channelId: Uint8Array = new Uint8Array()
  relay!: RelayChild
  owner!: Agent
  readonly isSqlite: boolean
  kills = 0
  isOver = false
  answered = 0
  /** Parts sent again because no answer had come. */
  repeated = 0
  #counter = 0n
  #killAfter = Number.POSITIVE_INFINITY
  #sending: Promise<void> = Promise.resolve()
  #reviving: Promise<void> | undefined

  constructor(home: RelayHome, random: () => number, start: Scene['start'], isSqlite: boolean) {
    this.isSqlite = isSqlite
    this.home = home
    this.random = random
    this.start = start
  }

  connect(key: Agent['key']): Promise<Agent> {
    return Agent.connect(grpcWire({ port: this.relay.ports.grpc, ca: this.home.ca }), {
      key,
      jwt: this.home.api.token('acme'),
    })
  }

  async begin(): Promise<void> {
    this.relay = await this.start(undefined)
    this.owner = await this.connect(this.keys.owner)
    this.channelId = await this.owner.createChannel('acme/test/files')
    await this.owner.commit(this.channelId, 0n, { adds: [this.keys.member.id] })
    this.#killLater(1)
  }

  /** Starts the relay again once it is dead. All uploads wait for the same one. */
  revive(): Promise<void> {
    this.#reviving ??= this.#revive().finally(() => {
      this.#reviving = undefined
    })
    return this.#reviving
  }

  async upload(file: Upload): Promise<void> {
    const sent = new Set<number>()
    let token = ''
    let isWhole = false
    for (let tries = 0; tries < TRIES; tries++) {
      try {
        if (token === '' || !isWhole) {
          const { state, sessionToken } = await this.owner.request('beginFile', {
            ...this.#named(file),
            size: BigInt(SIZE),
          })
          token = sessionToken
          for (const [part, body] of file.parts.entries()) {
            if (((state?.parts[0] ?? 0) >> part) & 1) continue
            if (sent.has(part)) this.repeated++
            sent.add(part)
            await this.#put(file, part, body, token)
          }
          isWhole = true
        }
        await this.#send(file)
        return
      } catch (error) {
        // Anything but a relay that is gone is a failure.
        const { code } = StaticError.from(error)
        if (error instanceof assert.AssertionError || code === 'file_incomplete') throw error
        await this.revive()
      }
    }
    assert.fail('The upload never ended.')
  }

  async fetch(file: Upload, member: Agent): Promise<void> {
    const { sessionToken } = await member.request('fileStatus', this.#named(file))
    for (const [part, body] of file.parts.entries()) {
      const found = await this.#part('GET', file, part, sessionToken)
      assert.deepEqual([found.status, Buffer.compare(found.body, body)], [200, 0])
    }
    await member.request('dropFile', { channelId: this.channelId, fileId: file.id, everyone: false })
  }

  #named({ id }: Upload): { channelId: Uint8Array; fileId: Uint8Array; visible: boolean } {
    return { channelId: this.channelId, fileId: id, visible: false }
  }

  async #put(file: Upload, part: number, body: Buffer, token: string): Promise<void> {
    const { status, body: answer } = await this.#part('PUT', file, part, token, body)
    assert.equal(status, 204, answer.toString())
    if (++this.answered === this.#killAfter) this.relay.kill()
  }

  /** Messages go one after the other, each again under its id until it is answered. */
  #send(file: Upload): Promise<void> {
    const work = this.#sending.then(async () => {
      const counter = this.#counter + 1n
      for (let tries = 0; tries < TRIES; tries++) {
        const { id: fileId } = file
        const fields = {
          channelId: this.channelId,
          slot: 1n,
          counter,
          ciphertext: Buffer.alloc(64),
          messageId: fileId,
          fileId,
        }
        try {
          await this.owner.request('sendMessage', fields)
          this.#counter = counter
          return
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error
          await this.revive()
        }
      }
      assert.fail('The message was never stored.')
    })
    this.#sending = work.catch(() => {})
    return work
  }

  async #part(
    method: 'GET' | 'PUT',
    { id }: Upload,
    part: number,
    token: string,
    body?: Buffer,
  ): Promise<{ readonly status: number; readonly body: Buffer }> {
    const path = `/v1/files/${toHex(this.channelId)}/${toHex(id)}/${part}`
    const length = body && { 'content-length': String(body.length) }
    const { ca, files } = this.home
    const request = requestHttps({
      host: 'localhost',
      port: files?.port,
      ca,
      agent: false,
      method,
      path,
      headers: { 'static-session': token, ...length },
    })
    request.end(body)
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, body: Buffer.concat((await response.toArray()) as Buffer[]) }
  }

  async #revive(): Promise<void> {
    // It may be alive still: a connection ends before its process.
    await this.relay.exited
    this.kills++
    const way = this.kills < KILLS ? this.kills % 3 : -1
    const step = STEPS[Math.floor(this.random() * STEPS.length)] ?? 'before_begin'
    const failAt = way === 0 && this.isSqlite ? { point: step, count: 3 + Math.floor(this.random() * 12) } : undefined
    try {
      this.relay = await this.start(failAt)
      this.owner = await this.connect(this.keys.owner)
    } catch (error) {
      // The step was passed before it was ready.
      if (failAt === undefined) throw error
      this.relay = await this.start(undefined)
      this.owner = await this.connect(this.keys.owner)
    }
    if (failAt === undefined && way >= 0) this.#killLater(way)
  }

  /** Between two answers, or at a moment of chance, mostly while bytes are on their way. */
  #killLater(way: number): void {
    const { relay } = this
    if (way === 1) this.#killAfter = this.answered + 1 + Math.floor(this.random() * 3)
    else void wait(20 + this.random() * 200).then(() => this.isOver || relay.kill())
  }
}

/** Uploads files while the relay is killed; then a member fetches them all, and nothing stays behind. */
async function live(
  t: TestContext,
  scene: Scene,
  parts: () => Promise<Parts>,
  store: () => Promise<Store>,
): Promise<void> {
  t.after(async () => {
    scene.relay.kill()
    await scene.relay.exited
    await scene.home.remove()
  })
  await scene.begin()
  const uploads: Upload[] = []
  const worker = async (): Promise<void> => {
    while (uploads.length < FILES || scene.kills < KILLS) {
      const bodies = Array.from({ length: filePartCount(SIZE) }, (_, part) => randomBytes(filePartBytes(SIZE, part)))
      const upload = { id: randomBytes(16), parts: bodies }
      uploads.push(upload)
      await scene.upload(upload)
    }
  }
  await Promise.all(Array.from({ length: UNDER_WAY }, worker))
  scene.isOver = true
  const member = await scene.connect(scene.keys.member)
  for (const upload of uploads) await scene.fetch(upload, member)
  const { kills, repeated } = scene
  assert.ok(repeated <= UNDER_WAY * kills, `${repeated} parts sent again in ${kills} kills`)
  // A busy object store may be slow to answer a sweep.
  const errors = scene.relay.errors().split('\n')
  assert.deepEqual(
    errors.filter((line) => line !== '' && !line.includes('The object store')),
    [],
  )
  scene.owner.close()
  member.close()
  await scene.relay.close()

  // All of it has been dropped. A part of a file that no store knows, as after a restored backup.
  const bytes = await parts()
  const opened = await store()
  t.after(() => opened.close())
  await bytes.put('0'.repeat(32), 0, body(), 4)
  const sweeper = new FileSweeper({
    store: opened,
    parts: {
      delete: async (files) => {
        for (const { key, parts: count } of files) await bytes.delete(key, count)
      },
      list: async (after) => (await Array.fromAsync(bytes.list(after))).map(({ key }) => key),
    },
    now: () => Date.now() + DAY,
    failed: (error) => assert.fail(String(error)),
  })
  await sweeper.sweep()
  await sweeper.search()
  await sweeper.stop()
  assert.deepEqual(await Array.fromAsync(bytes.list('')), [], 'no part stays')
  t.diagnostic(
    `promise T1: files, seed ${SEED}: ${uploads.length} files over ${kills} kills of the relay, ${repeated} parts sent again, all there, none without a record after the sweep`,
  )
}

async function* body(): AsyncIterable<Uint8Array> {
  yield Buffer.from('lost')
}

test(`sqlite and a directory: ${KILLS} kills, seed ${SEED}`, { timeout: 3_600_000 }, async (t) => {
  const home = await RelayHome.make()
  const directory = join(home.directory, 'files')
  home.files = { port: await quietPort(), store: directory }
  const scene = new Scene(home, randomNumbers(SEED), (failAt) => home.start({}, failAt), true)
  const path = join(home.directory, 'relay.sqlite')
  const options = { path, retention: RETENTION, onDeath: (error: unknown) => assert.fail(String(error)) }
  await live(
    t,
    scene,
    () => open(directory),
    () => openSqliteStore(options, () => {}),
  )
})

const program = rcloneProgram()
for (const server of program === undefined ? ['none'] : ['none', program]) {
  const name = server === 'none' ? 'a directory' : 'a bucket'
  const skip = !IS_LONG && !IS_WHOLE && 'run by `npm run proof -- ci` and `-- files`'
  test(`postgres and ${name}: ${KILLS} kills, seed ${SEED}`, { timeout: 3_600_000, skip }, async (t) => {
    const scratch = await makeScratch()
    t.after(() => scratch.remove())
    const home = await RelayHome.make()
    const spool = join(home.directory, 'files')
    const bucket = server === 'none' ? undefined : await startRclone(server)
    t.after(() => bucket?.stop())
    const place: string | S3Access = bucket ? { ...bucket.access, spool } : spool
    const ports = { grpc: await quietPort(), quic: await quietPort() }
    home.files = { port: await quietPort(), store: place }
    const cluster = { database: scratch.url, keyFile: scratch.keyFile }
    const scene = new Scene(home, randomNumbers(SEED), () => home.startNode({}, ports, cluster), false)
    const { url, keyFile } = scratch
    await live(
      t,
      scene,
      () => open(place),
      () => openPostgresStore({ url, keyFile, retention: RETENTION }, () => {}),
    )
  })
}

function open(store: string | S3Access): Promise<Parts> {
  return openParts(store, (error) => assert.fail(String(error)))
}
