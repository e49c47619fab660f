/** Invite links in programs: an agent with nothing but a link, and everything that a link cannot do. */
import assert from 'node:assert/strict'
import { hash, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { parseInviteLink, StaticChannelManager, StaticError } from '@static/sdk'
import { writeCredentials } from '@static/sdk/account'
import { newAuthority } from '@static/testkit/certificates'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { type Server, startServer } from '@static/testkit/server'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'

const NAME = 'acme/e2e/links'
const SECONDS = 240

let workspace: Workspace
let server: Server
let owner: StaticChannelManager
let account: { readonly apiKey: string; readonly apiUrl: string; readonly ca: string; readonly endpoint: string }

before(async () => {
  workspace = await makeWorkspace()
  const dataDir = workspace.directory('server')
  server = await startServer({ workspace, dataDir, command: 'up', logLevel: 'silent' })
  const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  using client = makeClient(server.url, ca)
  const apiKey = (await signUp(client)).api_key.key
  account = { apiKey, apiUrl: server.url, ca, endpoint: `quic://127.0.0.1:${server.relay.quicPort}` }
  owner = await StaticChannelManager.connect({ ...account, ...agent('owner') })
  await owner.create(NAME)
})

after(async () => {
  await owner.close()
  await server[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

function agent(identity: string): { readonly identity: string; readonly dataDir: string } {
  return { identity, dataDir: join(workspace.path, identity) }
}

function refusal(code: string, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, code, error.message)
    assert.match(error.message, message)
    return true
  }
}

/** A link with other bytes in place of some of its own, and the right checksum: what a liar can make of it. */
function altered(link: string, from: Uint8Array, to: Uint8Array): string {
  const body = Buffer.from(link.slice('static://'.length), 'base64url').subarray(0, -4)
  const at = body.indexOf(from)
  assert.ok(at > 0, 'the link contains the bytes')
  const parts = [body.subarray(0, at), to, body.subarray(at + from.length)]
  const other = Buffer.concat(parts)
  const sum = hash('sha256', Buffer.concat([Buffer.from('static link 1'), other]), 'buffer').subarray(0, 4)
  return `static://${Buffer.concat([other, sum]).toString('base64url')}`
}

/** A certificate as it is in a link: behind its length. */
function framed(raw: Uint8Array): Buffer {
  return Buffer.concat([Buffer.of(raw.length >> 8, raw.length & 0xff), raw])
}

test('an agent with nothing but a link joins as a guest, and finds its relay again without it', async () => {
  const link = await owner.inviteLink(NAME)
  const { endpoint, relayName, grpcPort, channel } = parseInviteLink(link)
  assert.deepEqual([endpoint, relayName, channel], [account.endpoint, 'localhost', NAME])
  assert.equal(grpcPort, server.relay.grpcPort)
  {
    // A key of its user is not for an address out of a link.
    const { apiKey, apiUrl } = account
    await using guest = await StaticChannelManager.connect({ ...agent('guest'), link, apiKey, apiUrl })
    await guest.joinWithLink(link, SECONDS)
    await guest.send(NAME, 'hello')
    assert.equal(Buffer.from((await owner.receive(NAME, SECONDS)) ?? []).toString(), 'hello')
    await assert.rejects(
      guest.create('acme/e2e/guests'),
      refusal('api_key_required', /This agent is a guest: .* `static signup`/),
    )
  }
  const kept = join(agent('guest').dataDir, 'relay.json')
  assert.equal(statSync(kept).mode & 0o777, 0o600)
  await using again = await StaticChannelManager.connect(agent('guest'))
  await owner.send(NAME, 'welcome back')
  assert.equal(Buffer.from((await again.receive(NAME, SECONDS)) ?? []).toString(), 'welcome back')
  // It was killed before it could write the relay down: the same link continues.
  await again.close()
  rmSync(kept)
  await using third = await StaticChannelManager.connect({ ...agent('guest'), link })
  assert.deepEqual(
    third.channels().map(({ name }) => name),
    [NAME],
  )
  assert.ok(existsSync(kept))
})

test('an agent that starts before the relay of its link can be reached remembers it later', async (t) => {
  const forwarder = createServer((socket) => {
    const onward = connect(server.relay.grpcPort, '127.0.0.1')
    for (const end of [socket, onward]) end.on('error', () => {})
    socket.pipe(onward).pipe(socket)
  })
  forwarder.listen(0, '127.0.0.1')
  await once(forwarder, 'listening')
  const { port } = forwarder.address() as AddressInfo
  const link = await owner.inviteLink(NAME, { endpoint: `https://127.0.0.1:${port}` })
  forwarder.close()
  await once(forwarder, 'close')
  const early = agent('early')
  const kept = join(early.dataDir, 'relay.json')
  await using waiting = await StaticChannelManager.connect({ ...early, link, wait: true })
  assert.equal(existsSync(kept), false)
  t.after(() => forwarder.close())
  forwarder.listen(port, '127.0.0.1')
  await waiting.joinWithLink(link, SECONDS)
  assert.match(readFileSync(kept, 'utf8'), new RegExp(`https://127\\.0\\.0\\.1:${port}`))
})

test('a link to the relay that an agent has is as good as its token, whatever address it names', async () => {
  await using joiner = await StaticChannelManager.connect({ ...account, ...agent('colleague') })
  const link = await owner.inviteLink(NAME, { endpoint: 'quic://192.0.2.9:4433' })
  await joiner.joinWithLink(link, SECONDS)
  assert.equal(existsSync(join(agent('colleague').dataDir, 'relay.json')), false)
})

test('a link names all nodes of a relay, whatever their hosts are called', async () => {
  const link = await owner.inviteLink(NAME, { endpoint: 'quic://node-1.example,quic://192.0.2.9:7' })
  const { endpoint, relayName } = parseInviteLink(link)
  assert.deepEqual([endpoint, relayName], ['quic://node-1.example:4433,quic://192.0.2.9:7', 'localhost'])
  const mixed = owner.inviteLink(NAME, { endpoint: 'quic://192.0.2.9,https://192.0.2.9' })
  await assert.rejects(mixed, refusal('invalid_request', /mixes quic:\/\/ and https:\/\//))
})

test('a CA that does not fit into a link is refused before there is an invite', async () => {
  const others = await Promise.all(Array.from({ length: 4 }, () => newAuthority()))
  const ca = [account.ca, ...others.map(({ cert }) => cert)].join('')
  await using many = await StaticChannelManager.connect({ ...account, ca, ...agent('many') })
  await many.create('acme/e2e/many')
  await assert.rejects(many.inviteLink('acme/e2e/many'), refusal('invalid_request', /does not fit .* 5 certificates/))
  assert.deepEqual(many.invites('acme/e2e/many'), [])
})

test('a link never replaces the relay, the CA or the pin of an agent', async () => {
  const link = await owner.inviteLink(NAME)
  const { relayId, ca = '' } = parseInviteLink(link)
  const certificate = new X509Certificate(ca).raw
  const [id, otherId] = [Buffer.from(relayId, 'hex'), Buffer.alloc(32, 9)]

  // Another id than the relay has: the agent sends it nothing, and does not remember the link.
  const pinned = altered(link, id, otherId)
  const fresh = agent('fresh')
  await assert.rejects(
    StaticChannelManager.connect({ ...fresh, link: pinned }),
    refusal('relay_changed', /answers, not 0909/),
  )
  // A CA that has not signed the relay's certificate: no session. A lie about the CA does not outlive the attempt either.
  const stranger = new X509Certificate((await newAuthority()).cert).raw
  const strange = altered(link, framed(certificate), framed(stranger))
  await assert.rejects(
    StaticChannelManager.connect({ ...fresh, link: strange, fallback: false }),
    refusal('connection_error', /certificate/),
  )
  assert.equal(existsSync(join(fresh.dataDir, 'relay.json')), false)
  {
    await using guest = await StaticChannelManager.connect({ ...fresh, link })
    const before = readFileSync(join(fresh.dataDir, 'relay.json'), 'utf8')
    assert.match(before, new RegExp(account.endpoint))
    await assert.rejects(
      guest.joinWithLink(pinned, SECONDS),
      refusal(
        'invite_invalid',
        /points to relay .* an agent cannot change its relay\. Join as another agent: `--as NAME`/,
      ),
    )
  }
  // An agent that has met a relay, and a link to another one, with nothing else configured.
  const elsewhere = altered(pinned, Buffer.from('127.0.0.1'), Buffer.from('127.0.0.9'))
  await assert.rejects(
    StaticChannelManager.connect({ ...agent('colleague'), link: elsewhere }),
    refusal('invite_invalid', /this agent uses localhost.*`--as NAME`/),
  )
})

test('an agent with an account keeps its endpoint, CA and key, given a link to its own host', async (t) => {
  const config = workspace.directory('config')
  const { apiKey, apiUrl, ca, endpoint } = account
  writeCredentials(join(config, 'static', 'credentials.json'), {
    api_key: apiKey,
    api_url: apiUrl,
    relay: endpoint,
    ca: join(workspace.path, 'server', 'ca.pem'),
  })
  const before = process.env['XDG_CONFIG_HOME']
  process.env['XDG_CONFIG_HOME'] = config
  t.after(() => {
    if (before === undefined) delete process.env['XDG_CONFIG_HOME']
    else process.env['XDG_CONFIG_HOME'] = before
  })
  const settled = agent('settled')
  {
    await using own = await StaticChannelManager.connect(settled)
    await own.create('acme/e2e/settled')
  }
  const link = await owner.inviteLink(NAME, { endpoint: `https://127.0.0.1:${server.relay.grpcPort}` })
  // A liar's link: the same host and id, and a CA of its own.
  const certificate = new X509Certificate(ca).raw
  const stranger = new X509Certificate((await newAuthority()).cert).raw
  const strange = altered(link, framed(certificate), framed(stranger))
  for (const given of [strange, link]) {
    await using joiner = await StaticChannelManager.connect({ ...settled, link: given })
    if (given === link) await joiner.joinWithLink(given, SECONDS)
    await joiner.create('acme/e2e/settled-too')
    assert.equal(existsSync(join(settled.dataDir, 'relay.json')), false)
  }
})

test('expired, used-up and revoked invites say which, as tokens and as links', async () => {
  const joiner = agent('late')
  await using late = await StaticChannelManager.connect({ ...account, ...joiner })
  const says = async (invite: string, code: string, message: RegExp): Promise<void> => {
    const { token } = parseInviteLink(invite)
    await assert.rejects(late.joinWithToken(NAME, token, SECONDS), refusal(code, message))
    await assert.rejects(late.joinWithLink(invite, SECONDS), refusal(code, message))
  }
  const open = await owner.inviteLink(NAME)
  const expiry = Buffer.alloc(8)
  expiry.writeBigUInt64BE(BigInt(parseInviteLink(open).expiresAt.getTime()))
  const expired = altered(open, expiry, Buffer.of(0, 0, 1, 0x90, 0, 0, 0, 0))
  await says(expired, 'invite_expired', /expired/)
  // An agent without a relay does not even dial.
  const unmade = agent('unmade')
  await assert.rejects(
    StaticChannelManager.connect({ ...unmade, link: expired }),
    refusal('invite_expired', /^The invite link expired on 20.*Z\. Ask the owner/),
  )
  assert.equal(existsSync(join(unmade.dataDir, 'relay.json')), false)

  const revoked = await owner.inviteLink(NAME)
  await owner.revokeInvite(parseInviteLink(revoked).token)
  await says(revoked, 'invite_revoked', /revoked/)

  const once = await owner.inviteLink(NAME)
  await using first = await StaticChannelManager.connect({ ...account, ...agent('first') })
  await first.joinWithLink(once, SECONDS)
  await says(once, 'invite_used_up', /no uses left|used up/)
  await assert.rejects(
    late.joinWithLink(once.slice(0, -1), SECONDS),
    refusal('invite_invalid', /damaged or incomplete/),
  )
})
