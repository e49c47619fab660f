import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { mock, test, type TestContext } from 'node:test'
import { StaticError } from '@static/protocol'
import type { StaticChannelManager } from '@static/sdk'
import { readCredentials, writeCredentials } from '@static/sdk/account'
import { newAuthority } from '@static/testkit/certificates'
import { ACTIONS } from '../src/agent/actions.ts'
import { encodeFrame, FrameReader, MAX_FRAME_BYTES } from '../src/agent/socket-frame.ts'
import { agentDirectory, defaultIdentity } from '../src/agent/identity.ts'
import { type AgentFlags, clientOptionsOf, commandLineFor, openAgent } from '../src/agent/open.ts'
import { accountOf } from '../src/account/account.ts'
import { chooseRelay, saveCredentials } from '../src/account/credentials.ts'
import { checkKnownRelay } from '../src/doctor/known-relay.ts'
import { staticError } from './support.ts'

void test('every identity has its own directory, with a name that every file system accepts', () => {
  for (const [identity, name] of [
    ['alice', 'alice'],
    ['ann@host.example', 'ann@host.example'],
    ['..', '%2E.'],
    ['.hidden', '%2Ehidden'],
    ['a/b', 'a%2Fb'],
    ['100%', '100%25'],
    ['a b\n', 'a%20b%0A'],
    ['zoë', 'zo%C3%AB'],
  ] as const) {
    assert.equal(agentDirectory('/agents', identity), `/agents/${name}`)
  }
  const long = agentDirectory('/agents', 'ë'.repeat(127))
  assert.match(long, /^\/agents\/%sha256-[\da-f]{64}$/)
  assert.notEqual(long, agentDirectory('/agents', 'ë'.repeat(126)))
})

void test('the suggested command line names the same agent, whatever its identity', () => {
  assert.match(commandLineFor({}, 'channel list'), /static channel list$/)
  assert.match(commandLineFor({ as: 'ann@host' }, 'channel list'), / channel list --as ann@host$/)
  const odd = { as: "it's $me", dataDir: '/tmp/a b' }
  assert.match(commandLineFor(odd, 'channel list'), / list --as 'it'\\''s \$me' --data-dir '\/tmp\/a b'$/)
  const guest = { relay: 'quic://relay.example', ca: '/tmp/a b' }
  assert.match(commandLineFor(guest, 'mcp'), / mcp --relay quic:\/\/relay\.example --ca '\/tmp\/a b'$/)
})

/** Runs with a home directory of its own and without a named identity. */
function atHome(t: TestContext): { readonly file: string; readonly agents: string } {
  const home = mkdtempSync(join(tmpdir(), 'static-identity-'))
  const env = { ...process.env }
  process.env['XDG_CONFIG_HOME'] = join(home, 'config')
  process.env['XDG_DATA_HOME'] = join(home, 'data')
  delete process.env['STATIC_IDENTITY']
  t.after(() => {
    process.env = env
    rmSync(home, { recursive: true })
  })
  return { file: join(home, 'config/static/identity'), agents: join(home, 'data/static/agents') }
}

void test('the default identity reveals nothing, is kept for the user, and yields to a name', (t) => {
  const { file } = atHome(t)
  const identity = defaultIdentity()
  assert.match(identity, /^agent-[a-z2-7]{10}$/)
  assert.equal(defaultIdentity(), identity)
  assert.equal(readFileSync(file, 'utf8'), `${identity}\n`)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  process.env['STATIC_IDENTITY'] = 'billing'
  assert.equal(defaultIdentity(), 'billing')
  delete process.env['STATIC_IDENTITY']
  rmSync(file)
  assert.notEqual(defaultIdentity(), identity)
})

void test('an agent that is named after user and host stays the default', (t) => {
  const { agents, file } = atHome(t)
  const named = `${userInfo().username}@${hostname()}`
  mkdirSync(agentDirectory(agents, named), { recursive: true })
  assert.equal(defaultIdentity(), named)
  assert.equal(readFileSync(file, 'utf8'), `${named}\n`)
  rmSync(agents, { recursive: true })
  assert.equal(defaultIdentity(), named, 'whatever the host is called later')
})

void test('a file without an identity, or that others can write, is named in the error', (t) => {
  const { file } = atHome(t)
  mkdirSync(dirname(file), { recursive: true })
  for (const text of ['', '\n', 'x'.repeat(256)]) {
    writeFileSync(file, text, { mode: 0o600 })
    assert.throws(() => defaultIdentity(), { code: 'invalid_request', message: /identity holds \d+ bytes/ })
  }
  writeFileSync(file, 'ann')
  chmodSync(file, 0o666)
  assert.throws(() => defaultIdentity(), { code: 'store_permissions' })
})

void test('a mistyped name makes no agent: the error names those that exist and how to create one', async (t) => {
  const { agents } = atHome(t)
  const refused = async (flags: AgentFlags, message: RegExp): Promise<void> => {
    await assert.rejects(openAgent(flags, { share: false }), { code: 'not_found', message })
  }
  await refused({}, /^Your default agent does not exist yet\. Create it with `.*static agent create`;/)
  await refused({ as: 'biling' }, /^There is no agent "biling" on this machine\. Create it/)
  // Not quic: that would also try the gRPC port of a server that runs on this machine.
  process.env['STATIC_RELAY'] = 'https://localhost:1'
  await (await openAgent({ as: 'billing' }, { share: false, create: true, wait: true })).close()
  await refused({ as: 'biling' }, /on this machine\. Agents on this machine: billing\. .*agent create --as biling`/)
  assert.ok(!existsSync(agentDirectory(agents, 'biling')))
  await refused({ dataDir: '/no such' }, /^There is no agent in \/no such\. .*agent create --data-dir '\/no such'`/)
})

/** A manager with a channel of two that catches up in some way. */
function managerOf(catchUp: () => Promise<void>): StaticChannelManager {
  const members = ['ann', 'bob'].map((agentId) => ({ agentId, fingerprint: agentId, identity: Buffer.from(agentId) }))
  const place = { name: 'acme/a/b', id: 'c0', owner: 'ann', confirmed: true }
  const channel = { ...place, members: () => members, verify: () => 'words', catchUp }
  const client = { fingerprint: () => 'ann', agentId: 'ann', channel: () => channel }
  return { channels: () => [channel], client } as unknown as StaticChannelManager
}

void test('without a relay, list and members show the last known state, and verify fails', async () => {
  mock.method(AbortSignal, 'timeout', () => AbortSignal.abort())
  const manager = managerOf(() => Promise.reject(new Error('The time is over.')))
  const listed = { name: 'acme/a/b', channel_id: 'c0', owner: 'ann', own: true, confirmed: true }
  assert.deepEqual(await ACTIONS.list(manager), [{ ...listed, members: 2, stale: true }])
  assert.equal((await ACTIONS.members(manager, 'acme/a/b')).length, 2)
  await assert.rejects(ACTIONS.verify(manager, 'acme/a/b'), { code: 'unavailable' })
  mock.reset()
})

void test('a failed channel is listed with its error code, and its words can still be compared', async () => {
  const manager = managerOf(() => Promise.reject(StaticError.of('mls_error')))
  const [listed] = await ACTIONS.list(manager)
  assert.deepEqual([listed?.members, listed?.error], [null, 'mls_error'])
  assert.equal(await ACTIONS.verify(manager, 'acme/a/b'), 'words')
  const full = managerOf(() => Promise.reject(StaticError.of('queue_full')))
  assert.equal((await ACTIONS.list(full))[0]?.members, 2)
  await assert.rejects(ACTIONS.verify(full, 'acme/a/b'), { code: 'queue_full' })
})

void test('frames are reassembled from any chunks, and a frame over the limit is refused by its length', () => {
  const values = [{ action: 'list' }, null, 'é'.repeat(5000), []]
  const bytes = Buffer.concat(values.map((value) => encodeFrame(value)))
  for (const size of [1, 3, 1000, bytes.length]) {
    const reader = new FrameReader()
    const found: unknown[] = []
    for (let at = 0; at < bytes.length; at += size) found.push(...reader.push(bytes.subarray(at, at + size)))
    assert.deepEqual(found, values, `in pieces of ${size}`)
  }
  const head = Buffer.alloc(4)
  head.writeUInt32BE(MAX_FRAME_BYTES + 1)
  assert.throws(() => new FrameReader().push(head), staticError('invalid_request', /too many/))
  assert.throws(() => new FrameReader().push(Buffer.from('\0\0\0\x01x')), staticError('invalid_request', /not JSON/))
  assert.throws(() => encodeFrame('x'.repeat(MAX_FRAME_BYTES)), staticError('too_large', /too many/))
})

void test('the CA saved for the own relay is not used for the relay of a link; one given with --ca is', async (t) => {
  const { file } = atHome(t)
  const { cert: ca } = await newAuthority()
  writeCredentials(join(dirname(file), 'credentials.json'), { ca, relay: 'quic://own.example' })
  assert.equal('ca' in (await clientOptionsOf({ as: 'guest' }, 'static://link')), false)
  assert.equal((await clientOptionsOf({ as: 'guest', ca }, 'static://link')).ca, ca)
})

void test('on a machine that knows no server, the error says how to name one', async (t) => {
  atHome(t)
  // Whatever listens at the usual address is not trusted.
  const { cert: ca } = await newAuthority()
  await assert.rejects(
    clientOptionsOf({ as: 'guest', ca }),
    staticError('connection_error', /knows no other server: join with a link, pass --relay and --ca, or sign up with/),
  )
})

void test('an account that is saved without a relay says so, and what its programs need', (t) => {
  const { file } = atHome(t)
  const { mock: written } = t.mock.method(process.stderr, 'write', () => true)
  const account = accountOf({ apiUrl: 'https://api.example' })
  saveCredentials(account, 'sk_live_verySecret123', { endpoint: 'quic://relay.example', grpcPort: 5443 })
  assert.equal(written.callCount(), 0)
  assert.equal(accountOf({}).relayGrpcPort, 5443)
  saveCredentials(account, 'sk_live_verySecret123', undefined)
  assert.match(
    String(written.calls[0]?.arguments[0]),
    /^static: https:\/\/api\.example announces no relay, .*STATIC_RELAY/,
  )
  assert.equal(readCredentials(join(dirname(file), 'credentials.json')).relay, undefined)
})

void test('doctor checks whether a relay is known that is dialed by its address', async (t) => {
  atHome(t)
  process.env['STATIC_RELAY_NAME'] = 'relay.example'
  assert.deepEqual(await checkKnownRelay('quic://192.0.2.1:4433', accountOf({})), [])
})

void test('a given relay wins over the saved one, and that over the announced one, and the person learns of a difference', () => {
  const api = 'https://api.example'
  const announced = { endpoint: 'quic://new.example:4433' }
  const saved = { api_url: api, relay: 'quic://old.example' }
  const given = { endpoint: 'quic://mine.example' }
  assert.deepEqual(chooseRelay(api, { given: undefined, saved: {}, announced }), { relay: announced })
  const kept = chooseRelay(api, { given: undefined, saved, announced })
  assert.equal(kept.relay?.endpoint, saved.relay)
  assert.match(kept.note ?? '', /announces the relay quic:\/\/new.example:4433; quic:\/\/old.example:4433 is used/)
  assert.deepEqual(chooseRelay(api, { given, saved, announced }).relay, given)
  const same = { given: undefined, saved: { api_url: api, relay: 'quic://new.example' }, announced }
  assert.equal(chooseRelay(api, same).note, undefined)
  // One that was saved with another API is not the relay of this one.
  const moved = chooseRelay('https://other.example', { given: undefined, saved, announced })
  assert.equal(moved.relay, announced)
  assert.match(moved.note ?? '', /which replaces quic:\/\/old.example of https:\/\/api.example/)
  // The announced port of the same relay is kept, and a newer one replaces it.
  const ported = { ...announced, grpcPort: 5443 }
  const own = { api_url: api, relay: 'quic://new.example', relay_grpc_port: '5000' }
  assert.equal(chooseRelay(api, { given: undefined, saved: own, announced: undefined }).relay?.grpcPort, 5000)
  assert.equal(chooseRelay(api, { given: undefined, saved: own, announced: ported }).relay?.grpcPort, 5443)
  assert.equal(chooseRelay(api, { given, saved: own, announced: ported }).relay?.grpcPort, undefined)
  // An address needs a name, which the API may announce.
  const address = { given: { endpoint: 'quic://192.0.2.1' }, saved: {}, announced: undefined }
  assert.throws(() => chooseRelay(api, address), { code: 'invalid_request' })
  const named = { ...address, announced: { endpoint: 'quic://192.0.2.1:4433', relayName: 'relay.example' } }
  assert.equal(chooseRelay(api, named).relay?.relayName, 'relay.example')
})
