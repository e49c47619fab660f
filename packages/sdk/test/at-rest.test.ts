/** What can be found on disk of an agent that has talked: nothing without the key, and with it nothing that is past. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { CrashPoint } from '@static/testkit/crash/agent-ports'
import { StaticClient } from '../src/public/client.ts'
import { decodeRow, makeEngine, type SignatureKeyPair } from '../src/mls/index.ts'
import { inside } from '../src/mls/ts-mls/state.ts'
import type { AgentStore, Change, EpochRecord } from '../src/ports/index.ts'
import type { ClientOptions } from '../src/gen/client-options.ts'
import { openAgentStore } from '../src/store/sqlcipher.ts'
import { LateListener } from './crash/late-listener.ts'
import { Scene } from './crash/scene.ts'
import { copyOf, decrypted, filesHolding, makeDirectory } from './store/support.ts'
import { code, take, takeEnvelope, TestSystem } from './support/test-system.ts'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const canaryOf = (): string => `canary ${randomBytes(24).toString('hex')}`

/** Every secret that was ever written, by what it is; in hexadecimal, because the agent wipes its own. */
class Secrets {
  readonly found = new Map<string, string>()
  /** The ratchets of each commit that was made. */
  readonly #made: string[][] = []
  readonly #adopted = new Set<string>()
  readonly #key: SignatureKeyPair
  readonly #engine = makeEngine()

  constructor(key: SignatureKeyPair) {
    this.#key = key
  }

  /** Watches a store, from what it holds on. */
  static watch(store: AgentStore): { secrets: Secrets; watched: AgentStore } {
    const { publicKey, secretKey } = store.load().identity
    const secrets = new Secrets({ publicKey, seed: secretKey })
    const watched: AgentStore = {
      load: () => store.load(),
      inbox: (id, after, limit) => store.inbox(id, after, limit),
      poison: (id) => store.poison(id),
      requests: (id, after, limit) => store.requests(id, after, limit),
      answers: (id) => store.answers(id),
      fileDigests: (id, index) => store.fileDigests(id, index),
      uploadParts: (id, fileId) => store.uploadParts(id, fileId),
      kept: (id, before, limit) => store.kept(id, before, limit),
      keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
      write: (changes) => {
        for (const change of changes) secrets.#note(change)
        store.write(changes)
      },
      onFailure: (listener) => store.onFailure(listener),
      checkpoint: () => store.checkpoint(),
      close: () => store.close(),
    }
    return { secrets, watched }
  }

  /** What a store holds now. */
  static of(store: AgentStore): Secrets {
    const { identity, keyPackages, channels } = store.load()
    const secrets = new Secrets({ publicKey: identity.publicKey, seed: identity.secretKey })
    secrets.#add('seed', identity.secretKey)
    for (const record of keyPackages) secrets.#note({ type: 'putKeyPackage', record })
    for (const { record, epoch, pending, outbox } of channels) {
      const { id } = record
      secrets.#note({ type: 'putEpoch', id, epoch })
      if (pending) secrets.#note({ type: 'putPending', id, pending })
      for (const message of outbox) secrets.#note({ type: 'putOutbox', id, record: message })
      for (const message of store.inbox(id, 0, 1000)) secrets.#note({ type: 'putInbox', id, record: message })
    }
    return secrets
  }

  get bytes(): Uint8Array[] {
    return [...this.found.keys()].map((secret) => Buffer.from(secret, 'hex'))
  }

  /** How many commits were made and never adopted. */
  get lostCommits(): number {
    return this.#made.filter((rows) => !rows.some((row) => this.#adopted.has(row))).length
  }

  /** How many there are of a kind. */
  count(kind: string): number {
    return [...this.found.values()].filter((found) => found === kind).length
  }

  #note(change: Change): void {
    switch (change.type) {
      case 'putKeyPackage':
        return this.#addKeyPackage(change.record.privatePart)
      case 'putEpoch':
        for (const row of change.epoch?.rows.values() ?? []) this.#adopted.add(hex(row))
        if (change.epoch) this.#addEpoch('', change.epoch)
        return
      case 'putGroup':
        return this.#addGroup('', change.group)
      case 'putRow':
        return this.#add('ratchet', decodeRow(change.row).secret)
      case 'putPending':
        if (!change.pending) return
        this.#made.push([...change.pending.next.rows.values()].map(hex))
        return this.#addEpoch('pending ', change.pending.next)
      case 'putOutbox':
        return this.#add('key of a sent message', change.record.messageKey)
      case 'putInbox':
        return this.#add('key of a received message', change.record.messageKey)
      default:
    }
  }

  #addKeyPackage(privatePart: Uint8Array): void {
    this.#add('key package', privatePart)
    this.#add('init key', privatePart.subarray(1, 33))
    this.#add('seed of a seal', privatePart.subarray(65, 129))
  }

  #addEpoch(prefix: string, { group, rows }: EpochRecord): void {
    this.#addGroup(prefix, group)
    for (const row of rows.values()) this.#add(`${prefix}ratchet`, decodeRow(row).secret)
  }

  #addGroup(prefix: string, group: Uint8Array): void {
    const { keySchedule, privatePath, secretTree } = inside(this.#engine.decodeGroup(group, this.#key)).state
    const secrets = [
      ...Object.values(keySchedule),
      ...Object.values(privatePath.privateKeys),
      ...secretTree.map(({ handshake }) => handshake.secret),
    ]
    for (const secret of secrets) this.#add(`${prefix}epoch`, secret)
  }

  #add(kind: string, secret: Uint8Array): void {
    if (secret.length >= 16 && !this.found.has(hex(secret))) this.found.set(hex(secret), kind)
  }
}

/** Alice, whose database is looked at, has talked with bob, has committed and lost; one message she has not read. */
async function talk(world: TestSystem, canary: string): Promise<{ alice: StaticClient; secrets: Secrets }> {
  let secrets: Secrets | undefined
  const network = new LateListener()
  const alice = await world.agent('alice', {
    store: (store) => {
      const watching = Secrets.watch(store)
      secrets = watching.secrets
      return watching.watched
    },
    transport: (transport) => network.transport(transport),
    // Cover is written too, and she hears again after anything that is.
    traffic: 'off',
  })
  const bob = await world.agent('bob', { account: null })
  const [a, b] = await world.channel(alice, [bob])
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 4; n++) {
      await a!.send(`${canary} of alice ${round} ${n}`)
      await b!.send(`${canary} of bob ${round} ${n}`)
    }
    await take(b!, 4)
    await take(a!, 4)
    await (round === 0 ? a! : b!).rotate()
  }
  // One that loses: alice has followed until here, and does not hear of bob's before she has made her own.
  await b!.send(`${canary} in time`)
  await take(a!, 1)
  const lost = secrets!.lostCommits
  network.stopListening()
  await b!.rotate()
  network.listenAfterWrite()
  await a!.rotate()
  assert.ok(secrets!.lostCommits > lost)
  await b!.send(`${canary} read`)
  assert.equal((await takeEnvelope(a!)).sender.agentId, bob.agentId)
  await b!.send(`${canary} unread`)
  await a!.send('the last word')
  await take(b!, 1)
  await bob.close()
  return { alice, secrets: secrets! }
}

const SETTINGS = { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } }

test('no file contains a payload or a secret, open or closed', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  const canary = canaryOf()
  const { alice, secrets } = await talk(world, canary)
  const directory = world.directoryOf('alice')
  const wanted = [new TextEncoder().encode(canary), ...secrets.bytes]
  assert.ok(readdirSync(directory).includes('agent.db-wal'))
  assert.deepEqual(filesHolding(directory, wanted), [])
  await alice.close()
  assert.deepEqual(filesHolding(directory, wanted), [])
  const store = await reopened(copyOf(directory), 'alice')
  const held = Secrets.of(store)
  store.close()
  // The private key of the agent, and the secrets of the KeyPackages in the relay's pool.
  assert.equal(held.count('seed'), 1)
  assert.ok(held.count('key package') >= 16)
  assert.deepEqual(filesHolding(directory, held.bytes), [])
})

test('with the key, nothing deleted is found after a checkpoint', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  const canary = canaryOf()
  const { alice, secrets } = await talk(world, canary)
  const directory = world.directoryOf('alice')
  await alice.close()
  const pages = await decrypted(copyOf(directory))
  const store = await reopened(directory, 'alice')
  const held = Secrets.of(store)
  store.close()

  // What is needed to go on is there, so the search finds what there is; one key is of the message that is not read.
  for (const [secret, kind] of held.found) assert.ok(holds(pages, secret), kind)
  assert.equal(held.count('key of a received message'), 1)
  assert.equal(held.count('key of a sent message'), 0)
  const past = [...secrets.found].filter(([secret]) => !held.found.has(secret))
  for (const kind of [
    'ratchet',
    'epoch',
    'pending ratchet',
    'pending epoch',
    'key package',
    'init key',
    'seed of a seal',
    'key of a sent message',
  ]) {
    assert.ok(
      past.some(([, found]) => found === kind),
      `nothing past of the kind: ${kind}`,
    )
  }
  t.diagnostic(`${secrets.found.size} secrets were written, ${held.found.size} are held, ${past.length} are past`)
  const left = past.filter(([secret]) => holds(pages, secret))
  assert.deepEqual(
    left.map(([, kind]) => kind),
    [],
  )
  assert.equal(pages.includes(canary), false)
})

test('no file contains a payload or a secret after kill -9', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  const peer = await world.agent('peer', { account: null, chance: () => 0 })
  const owner = await world.agent('owner')
  for (const call of [1, 2, 3, 4, 5, 6]) {
    const scene = new Scene(world, peer, 'owner')
    const canary = canaryOf()
    const crashAt: CrashPoint = { call, moment: 'after' }
    const [own] = await world.channel(owner, [await scene.start()], scene.channel)
    await own!.send(`${canary} read`)
    await scene.stop()
    // Odd ones send when they are killed, the others receive.
    const task =
      call % 2 === 0 ? ({ type: 'receive', count: 4 } as const) : ({ type: 'send', texts: [canary] } as const)
    await scene.crash(task, crashAt, { meanwhile: async () => void (await own!.send(`${canary} unread`)) })
    const { directory } = scene
    const copy = await reopened(copyOf(directory), scene.agent)
    const held = Secrets.of(copy)
    copy.close()
    assert.ok(held.count('seed') === 1 && held.count('epoch') > 0)
    assert.deepEqual(filesHolding(directory, [new TextEncoder().encode(canary), ...held.bytes]), [])
  }
})

test('a client reports why its database cannot be opened, and leaves nothing open', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const scene = new Scene(world, await world.agent('peer'), 'guest')
  await scene.withMember()
  const { directory } = scene
  const options: ClientOptions = {
    endpoint: `https://localhost:${world.relay.grpcPort}`,
    dataDir: directory,
    identity: scene.agent,
    apiKey: null,
    ca: world.relay.ca,
  }
  const opens = async (): Promise<void> => {
    const client = await StaticClient.connect(options)
    assert.deepEqual(
      client.channels().map(({ name }) => name),
      [scene.channel],
    )
    await client.close()
  }
  const refuses = async (expected: string, more: ClientOptions = {}): Promise<void> => {
    await assert.rejects(StaticClient.connect({ ...options, ...more }), code(expected))
  }
  await opens()

  await t.test('another key', async () => {
    const path = join(makeDirectory(), 'other.key')
    writeFileSync(path, randomBytes(32), { mode: 0o600 })
    await refuses('store_key_wrong', { key: { type: 'file', path } })
    await opens()
  })

  await t.test('a changed byte', async () => {
    const file = join(directory, 'agent.db')
    const whole = readFileSync(file)
    const changed = Buffer.from(whole)
    changed[4096 + 1000]! ^= 1
    writeFileSync(file, changed)
    await refuses('store_corrupt')
    writeFileSync(file, whole)
    await opens()
  })

  await t.test('a file that others can read', async () => {
    chmodSync(join(directory, 'agent.db'), 0o640)
    await refuses('store_permissions')
    chmodSync(join(directory, 'agent.db'), 0o600)
    await opens()
  })

  await t.test('another process', async () => {
    const locked = (): Promise<void> => refuses('store_locked')
    await scene.crash({ type: 'rotate' }, undefined, { meanwhile: locked })
    await opens()
  })

  await t.test('the same process', async () => {
    const client = await StaticClient.connect(options)
    await refuses('store_locked')
    await client.channel(scene.channel).send('still open')
    await client.close()
    await opens()
  })
})

/** Its first or its last 16 bytes: the end of a page may be between them. */
function holds(pages: Buffer, secret: string): boolean {
  const bytes = Buffer.from(secret, 'hex')
  return pages.includes(bytes.subarray(0, 16)) || pages.includes(bytes.subarray(-16))
}

async function reopened(directory: string, identity: string): Promise<AgentStore> {
  return await openAgentStore({
    directory,
    identity: Buffer.from(identity),
    makeIdentity: () => assert.fail('It was made before.'),
  })
}
