/** Keys of real issuers over TLS, and everything that a server, a name or a file can do wrong. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { StaticError } from '@static/protocol'
import { type OidcIssuer, startOidcIssuer } from '@static/testkit/issuers/oidc'
import { type IssuerWeb, startIssuerWeb } from '@static/testkit/issuers/web'
import { DOMAIN_PATH, fetchKeys } from '../../src/account/trust/fetch-keys.ts'
import { fetchHttpsFile } from '../../src/account/trust/https-file.ts'
import { openProofDesk } from '../../src/account/trust/desk.ts'
import { DomainStore, domainsIn } from '../../src/account/trust/domain-store.ts'
import { openChecker } from '../../src/account/trust/open-checker.ts'
import { isProxied, proxyOf } from '../../src/account/trust/proxy.ts'
import { isPublicAddress } from '../../src/account/trust/public-address.ts'
import {
  callbackSource,
  fileSource,
  githubActionsSource,
  renewed,
  statementSource,
} from '../../src/account/trust/sources.ts'
import { StatementWatch } from '../../src/account/trust/statement-watch.ts'
import { type HeldStatement, heldStatements, holdStatement } from '../../src/account/trust/statements-file.ts'
import { TrustStore } from '../../src/account/trust/store.ts'
import { afterFetch, NO_KEYS } from '../../src/proofs/key-state.ts'
import { MAX_KEYS_BYTES, readKeys, revocationOf } from '../../src/proofs/keys.ts'
import { parseRoot, type Root } from '../../src/proofs/roots.ts'
import { isStatement, readStatement } from '../../src/proofs/statement.ts'
import { Agent, GITHUB, issuers, job, lineOf, signedStatement } from '../proofs/scene.ts'

const DAY = 86_400_000
const PLACE = `acme.example${DOMAIN_PATH}`
const alice = new Agent()
let web: IssuerWeb
let oidc: OidcIssuer
const home = mkdtempSync(join(tmpdir(), 'static-trust-'))
const directory = (name: string): string => join(home, name)

before(async () => {
  ;[web, oidc] = await Promise.all([startIssuerWeb(), startOidcIssuer()])
})
after(async () => {
  await Promise.all([web[Symbol.asyncDispose](), oidc[Symbol.asyncDispose]()])
  rmSync(home, { recursive: true, force: true })
})

const pinned = (text: string): Root => parseRoot(text, { pin: { address: web.address, ca: web.ca } })

/** Why keys are out of reach; `N bytes` if they are not. */
async function outcome(root: Root, proxy?: Parameters<typeof fetchKeys>[1]): Promise<string> {
  const fetched = await fetchKeys(root, proxy)
  return 'failed' in fetched ? fetched.failed : `${fetched.bytes.length} bytes`
}

test('a domain signs a statement, publishes its key, and a stranger checks the proof', async () => {
  const domain = new DomainStore(directory('domains'), 'acme.example')
  assert.ok(domain.init() && !domain.init())
  web.pages.set(PLACE, domain.publicFile(Date.now()))
  const statement = await domain.sign({ agentId: alice.id, subject: 'deployer' }, 30, Date.now())
  const store = new TrustStore(directory('trust-domain'))
  store.change(() => [{ root: pinned('acme.example') }])
  const checker = openChecker({ directory: directory('trust-domain'), identity: 'verifier' }, () => {})
  await checker.start()
  const proof = await alice.proof('statement', () => statement)
  const verdict = await checker.check(proof, alice.context())
  assert.equal(lineOf(verdict), 'checked domain acme.example deployer')
  assert.ok(verdict.state === 'checked')
  domain.revoke(readStatement(statement)?.id ?? '', Date.now())
  web.pages.set(PLACE, domain.publicFile(Date.now()))
  const later = openChecker({ directory: directory('trust-domain'), identity: 'verifier' }, () => {})
  store.update(pinned('acme.example'), (state) => ({ ...state, triedAt: 0 }))
  await later.start()
  assert.equal(lineOf(later.standing(verdict)), 'invalid: its issuer has revoked it')
  assert.match(lineOf(await later.check(proof, alice.context())), /^invalid: its issuer has revoked it/)
  checker.stop()
  later.stop()
})

test('a real OIDC issuer vouches for an agent, and its access tokens do not', async () => {
  const root = parseRoot(`oidc:${oidc.issuer}`, { pin: { address: oidc.address, ca: oidc.ca } })
  const checker = openChecker({ directory: directory('trust-oidc'), identity: 'verifier', roots: [root] }, () => {})
  await checker.start()
  const line = async (access: boolean): Promise<string> => {
    const proof = await alice.proof('token', (audience) => oidc.mint(audience, { access }))
    return lineOf(await checker.check(proof, alice.context()))
  }
  assert.equal(await line(false), 'checked oidc https://idp.example billing')
  assert.equal(await line(true), 'invalid: its type is not that of an identity token')
  checker.stop()
})

test('the keys of a server are out of reach unless it answers with the file', { timeout: 30_000 }, async () => {
  const root = pinned('acme.example')
  web.pages.set(PLACE, (_, response) => response.writeHead(302, { location: `https://acme.example/other` }).end())
  assert.equal(await outcome(root), 'the server answered with HTTP status 302')
  web.pages.set(PLACE, (_, response) => response.writeHead(500).end('{}'))
  assert.equal(await outcome(root), 'the server answered with HTTP status 500')
  web.pages.set(PLACE, (request) => request.destroy())
  assert.match(await outcome(root), /socket hang up|ECONNRESET/)
  web.pages.set(PLACE, (_, response) =>
    response.writeHead(200, { 'content-length': '900' }).write('{', () => response.destroy()),
  )
  assert.match(await outcome(root), /aborted|hang up|ECONNRESET/)
  // Node reports neither an answer nor an error.
  web.pages.set(PLACE, ({ socket }) =>
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
  )
  assert.equal(await outcome(root), 'the server ended the connection without an answer')
  web.pages.set(PLACE, 'x'.repeat(MAX_KEYS_BYTES + 1))
  const long = await fetchKeys(root, undefined)
  assert.ok('bytes' in long && readKeys(root, long.bytes) === `is longer than ${MAX_KEYS_BYTES} bytes`)
  // As much as fits into the buffers of the network, but not all of it.
  const [piece, pieces] = ['x'.repeat(MAX_KEYS_BYTES), 512]
  let sent = 0
  const send = (response: ServerResponse): void => {
    if (response.destroyed || sent === pieces) return void response.end()
    sent++
    response.write(piece, () => send(response))
  }
  web.pages.set(PLACE, (_, response) => send(response))
  assert.equal(await outcome(root), `${MAX_KEYS_BYTES + 1} bytes`)
  assert.ok(sent < pieces / 2, `${sent} pieces`)
  assert.deepEqual(new Set(web.requests.filter((place) => place.includes('other'))), new Set())
})

test('a server or a DNS server that does not answer is given up after five seconds', { timeout: 20_000 }, async () => {
  web.pages.set(PLACE, () => {})
  const started = performance.now()
  const unresolved = fetchHttpsFile(new URL(`https://${PLACE}`), {}, () => new Promise(() => {}))
  const failed = assert.rejects(unresolved, /^Error: no answer within 5 s$/)
  assert.equal(await outcome(pinned('acme.example')), 'no answer within 5 s')
  await failed
  assert.ok(performance.now() - started < 9000)
})

test('the connection goes to the address that was checked, whatever DNS answers later', async () => {
  const { port } = new URL(`https://${web.address}`)
  const url = new URL(`https://acme.example:${port}/rebound`)
  web.pages.set(`${url.host}/rebound`, 'right')
  const answers = [['127.0.0.1'], ['127.0.0.2']]
  const asked: string[] = []
  const resolve = (host: string): Promise<readonly string[]> => {
    asked.push(host)
    return Promise.resolve(answers.shift() ?? [])
  }
  const way = { pin: { ca: web.ca }, anyAddress: true }
  assert.equal((await fetchHttpsFile(url, way, resolve)).toString(), 'right')
  assert.deepEqual(asked, ['acme.example'], 'it is resolved once')
  // Of several addresses, none inside is used, in whatever order they come.
  const before = web.requests.length
  for (const inside of [['127.0.0.1'], ['10.0.0.1', '127.0.0.1', '::1'], []]) {
    const rejected = fetchHttpsFile(url, { pin: { ca: web.ca } }, () => Promise.resolve(inside))
    await assert.rejects(rejected, /acme\.example has no public address/)
  }
  assert.equal(web.requests.length, before)
})

test('a name is believed only with its certificate, at a public address', async () => {
  web.pages.set(PLACE, '{}')
  const without = parseRoot('acme.example', { pin: { address: web.address } })
  assert.match(await outcome(without), /certificate/)
  const other = parseRoot('evil.example', { pin: { address: web.address, ca: web.ca } })
  assert.match(await outcome(other), /evil\.example|altnames/)
  // An issuer that leads to this machine, or into its network.
  for (const host of ['localhost', '127.0.0.1', '10.0.0.1', '169.254.169.254']) {
    const { port } = new URL(`https://${web.address}`)
    const before = web.requests.length
    assert.match(await outcome(parseRoot(`oidc:https://${host}:${port}`)), /has no public address/, host)
    assert.equal(web.requests.length, before)
  }
})

test('an issuer answers for itself, on its own host where an address is pinned', async () => {
  const root = pinned('oidc:https://idp.example')
  const configuration = 'idp.example/.well-known/openid-configuration'
  web.pages.set(configuration, JSON.stringify({ issuer: 'https://evil.example', jwks_uri: 'https://idp.example/jwks' }))
  assert.equal(await outcome(root), 'the configuration of its issuer names another issuer')
  web.pages.set(configuration, JSON.stringify({ issuer: 'https://idp.example', jwks_uri: 'https://acme.example/jwks' }))
  assert.match(await outcome(root), /on another host, acme\.example/)
  web.pages.set(configuration, JSON.stringify({ issuer: 'https://idp.example', jwks_uri: 'http://idp.example/jwks' }))
  assert.equal(await outcome(root), 'it is not an https address')
  web.pages.set(configuration, JSON.stringify({ issuer: 'https://idp.example' }))
  assert.match(await outcome(root), /names no `jwks_uri`/)
  web.pages.set(configuration, '[')
  assert.match(await outcome(root), /names another issuer/)
})

test('only addresses of the public internet are public', () => {
  const inside =
    '0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.168.1.1 198.18.0.1 224.0.0.1 255.255.255.255 :: ::1 ::ffff:8.8.8.8 64:ff9b::7f00:1 fc00::1 fe80::1 ff02::1 2001::1 2001:db8::1 2002:7f00:1:: localhost 8.8.8 '
  const outside = '1.1.1.1 8.8.8.8 172.32.0.1 192.167.1.1 2606:4700::1111 2a00:1450:4001::1'
  for (const address of inside.split(' ')) assert.ok(!isPublicAddress(address), address)
  for (const address of outside.split(' ')) assert.ok(isPublicAddress(address), address)
})

test('keys are fetched through a proxy, which TLS does not trust', async (t) => {
  const asked: string[] = []
  const proxy = createServer()
  proxy.on('connect', ({ url, headers }, socket: Socket) => {
    asked.push(`${url} ${Buffer.from(headers['proxy-authorization']?.slice(6) ?? '', 'base64').toString()}`)
    if (url !== 'acme.example:443') return void socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    const [host = '', port = ''] = web.address.split(':')
    const server = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.pipe(server).pipe(socket)
    })
    for (const each of [server, socket]) each.on('error', () => each.destroy())
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const sockets = new Set<Socket>()
  proxy.on('connection', (socket: Socket) => sockets.add(socket))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const { port } = proxy.address() as AddressInfo
  const env = { HTTPS_PROXY: `http://user:p%20w@127.0.0.1:${port}`, NO_PROXY: 'intern.example, .corp.example' }
  const way = proxyOf(env)
  assert.ok(way)
  web.pages.set(PLACE, '{"keys":[]}')
  assert.equal(await outcome(parseRoot('acme.example', { pin: { ca: web.ca } }), way), '11 bytes')
  assert.match(await outcome(parseRoot('acme.example'), way), /certificate/)
  assert.equal(await outcome(parseRoot('evil.example'), way), 'the proxy answered with 403')
  // A pinned address is on this side of it.
  assert.equal(await outcome(pinned('acme.example'), way), '11 bytes')
  assert.deepEqual(asked, ['acme.example:443 user:p w', 'acme.example:443 user:p w', 'evil.example:443 user:p w'])
  const proxied = ['acme.example', 'intern.example', 'a.corp.example', 'notcorp.example'].map((host) =>
    isProxied(way, host),
  )
  assert.deepEqual(proxied, [true, false, false, true])
  assert.equal(proxyOf({}), undefined)
  assert.throws(() => proxyOf({ HTTPS_PROXY: 'socks5://x' }), StaticError)
})

test('the trust list is a private file, and damage to it makes nothing valid', () => {
  const place = directory('trust-list')
  const store = new TrustStore(place)
  assert.deepEqual(store.list(), [])
  const bundle = parseRoot('spiffe:acme.example', { keys: '/run/bundle.json' })
  store.change(() => [{ root: pinned('acme.example') }, { root: bundle, agents: ['deployer'] }])
  const first = store.version()
  assert.deepEqual(store.list(), [{ root: pinned('acme.example') }, { root: bundle, agents: ['deployer'] }])
  store.update(bundle, (state) => ({ ...state, triedAt: 5, failed: 'down' }))
  assert.equal(store.load(bundle).triedAt, 5)
  assert.notEqual(store.version(), first)
  assert.equal(statSync(place).mode & 0o777, 0o700)
  for (const name of readdirSync(place)) assert.equal(statSync(join(place, name)).mode & 0o777, 0o600, name)
  const keys = join(place, readdirSync(place).find((name) => name.startsWith('keys-')) ?? '')
  for (const damage of ['', '{', '[]', '{"triedAt":1}', readFileSync(keys, 'utf8').replace('"ids"', '"idz"')]) {
    writeFileSync(keys, damage)
    assert.match(store.load(bundle).refused ?? '', /is damaged/, damage)
  }
  // A fetch must not replace what a person has to look at: it would forget which keys were known.
  const accept = (): void => store.update(bundle, (state) => afterFetch(bundle, state, { failed: 'down' }, Date.now()))
  assert.throws(accept, /is damaged/)
  chmodSync(keys, 0o644)
  assert.match(store.load(bundle).refused ?? '', /chmod 600/)
  assert.throws(accept, /chmod 600/)
  store.forget(bundle)
  assert.deepEqual(store.load(bundle), NO_KEYS)
  writeFileSync(join(place, 'roots.json'), '{"roots":[{"root":"*"}]}', { mode: 0o600 })
  assert.throws(() => store.list(), /is not a list of roots/)
  chmodSync(join(place, 'roots.json'), 0o666)
  assert.throws(
    () => store.list(),
    (error) => error instanceof StaticError && error.code === 'store_permissions',
  )
})

test('keys that one agent reads from a file are not those that another one fetches for the same domain', async () => {
  const place = directory('trust-ways')
  const company = new DomainStore(directory('trust-ways-domain'), 'acme.example')
  company.init()
  const keys = join(home, 'trust-ways.json')
  writeFileSync(keys, company.publicFile(Date.now()))
  const statement = await company.sign({ agentId: alice.id, subject: 'deployer' }, 30, Date.now())
  const proof = await alice.proof('statement', () => statement)
  web.pages.delete(PLACE)
  const line = async (root: Root): Promise<string> => {
    const checker = openChecker({ directory: place, identity: 'verifier', roots: [root] }, () => {})
    await checker.start()
    checker.stop()
    return lineOf(await checker.check(proof, alice.context()))
  }
  assert.match(await line(parseRoot('acme.example', { keys })), /^checked/)
  const other = { address: web.address, ca: oidc.ca }
  for (const root of [pinned('acme.example'), parseRoot('acme.example', { pin: other })])
    assert.match(await line(root), /^unchecked: its keys are out of reach/)
  const ways = [parseRoot('acme.example'), parseRoot('acme.example', { keys: `${keys}2` })]
  for (const root of ways) assert.deepEqual(new TrustStore(place).load(root), NO_KEYS)
})

test('why keys are out of reach is said in printable words, and not in many', async () => {
  const keys = `/nowhere/\u001B[2J\u202e${'x'.repeat(1000)}`
  const words = await outcome(parseRoot('acme.example', { keys }))
  assert.match(words, /^[ -~]{300}$/)
})

test('a root for one agent is not that of another', async () => {
  const place = directory('trust-narrow')
  new TrustStore(place).change(() => [{ root: pinned('acme.example'), agents: ['deployer'] }])
  web.pages.set(PLACE, '{}')
  const rootsOf = async (identity: string): Promise<number> => {
    const checker = openChecker({ directory: place, identity }, () => {})
    await checker.start()
    checker.stop()
    return checker.roots.length
  }
  assert.deepEqual([await rootsOf('deployer'), await rootsOf('billing')], [1, 0])
})

test('the key of a domain stays private, and what it revokes stays revoked', async () => {
  const place = directory('own-domains')
  const domain = new DomainStore(place, 'acme.example')
  await assert.rejects(domain.sign({ agentId: alice.id, subject: 'a' }, 30, Date.now()), /is not on this machine/)
  domain.init()
  assert.deepEqual(domainsIn(place), ['acme.example'])
  const key = join(place, 'acme.example/key.json')
  assert.equal(statSync(key).mode & 0o777, 0o600)
  const secret = (JSON.parse(readFileSync(key, 'utf8')) as { readonly d: string }).d
  const now = Date.now()
  const [one, two] = [
    await domain.sign({ agentId: alice.id, subject: 'a' }, 1, now),
    await domain.sign({ agentId: alice.id, subject: 'b' }, 30, now),
  ]
  const idOf = (jwt: string): string => readStatement(jwt)?.id ?? ''
  domain.revoke(idOf(one), now)
  // Of a statement that another machine has made.
  domain.revoke('x'.repeat(22), now)
  assert.ok(!domain.publicFile(now).includes(secret))
  const root = parseRoot('acme.example')
  const published = readKeys(root, Buffer.from(domain.publicFile(now)))
  assert.ok(typeof published !== 'string')
  assert.deepEqual(published.revoked, [revocationOf(idOf(one)), revocationOf('x'.repeat(22))].toSorted())
  assert.deepEqual(
    domain
      .statements(now)
      .map(({ subject, isRevoked }) => [subject, isRevoked])
      .toSorted(),
    [
      ['a', true],
      ['b', false],
    ],
  )
  // Dropped once they have ended by themselves.
  assert.deepEqual(domain.keySet(now + 2 * DAY).revoked, [revocationOf('x'.repeat(22))])
  assert.deepEqual(domain.keySet(now + 91 * DAY).revoked, [])
  domain.sweep(now + 91 * DAY)
  assert.deepEqual(readdirSync(join(place, 'acme.example/statements')), [])
  const third = await domain.sign({ agentId: alice.id, subject: 'c' }, 30, now)
  domain.revokeAll(now)
  const fourth = await domain.sign({ agentId: alice.id, subject: 'd' }, 30, now)
  const { notBefore } = domain.keySet(now)
  assert.ok((readStatement(third)?.issuedAt ?? Infinity) < notBefore)
  assert.equal(readStatement(fourth)?.issuedAt, notBefore)
  assert.throws(() => domain.revoke('../../x', now), /is not the id of a statement/)
  assert.ok(isStatement(two))
})

test('an agent renews its statement where the key of the domain is, and never a revoked one', async () => {
  const [agent, place] = [directory('agent'), directory('renewing')]
  new TrustStore(agent).change(() => [])
  const domain = new DomainStore(place, 'acme.example')
  domain.init()
  const now = Date.now()
  const about = { agentId: alice.id, subject: 'deployer' }
  await assert.rejects(statementSource(agent, 'acme.example', place).mint(''), /has no statement of acme\.example/)
  const first = await domain.sign(about, 30, now)
  holdStatement(agent, first)
  assert.equal((await statementSource(agent, 'acme.example', place).mint('')).jwt, first)
  const [held] = heldStatements(agent)
  assert.ok(held && held.subject === 'deployer')
  assert.equal(await renewed(agent, held, place, now + 22 * DAY), first)
  assert.equal(await renewed(agent, held, directory('elsewhere'), now + 24 * DAY), first)
  const second = await renewed(agent, held, place, now + 24 * DAY)
  assert.notEqual(second, first)
  assert.deepEqual(
    heldStatements(agent).map(({ jwt }) => jwt),
    [second],
  )
  assert.equal(readStatement(second)?.expiresAt, Math.floor((now + 54 * DAY) / 1000))
  assert.equal(statSync(join(agent, 'statements.json')).mode & 0o777, 0o600)
  const [again] = heldStatements(agent)
  assert.ok(again)
  assert.equal(await renewed(agent, again, place, now + 55 * DAY), second)
  domain.revoke(again.id, now)
  assert.equal(await renewed(agent, again, place, now + 50 * DAY), second)
  // One that another machine has made, with the same key, and one that somebody else has made up.
  const twin = new DomainStore(directory('renewing-twin'), 'acme.example')
  twin.init()
  const forged = await twin.sign({ agentId: alice.id, subject: 'chief' }, 1, now)
  const heldOf = (jwt: string): HeldStatement => ({ ...(readStatement(jwt) ?? assert.fail()), jwt })
  assert.equal(await renewed(agent, heldOf(forged), place, now + DAY - 1000), forged)
  copyFileSync(join(place, 'acme.example/key.json'), join(directory('renewing-twin'), 'acme.example/key.json'))
  const elsewhere = await twin.sign(about, 1, now)
  const renewal = await renewed(agent, heldOf(elsewhere), place, now + DAY - 1000)
  assert.notEqual(renewal, elsewhere)
  domain.revoke(heldOf(elsewhere).id, now)
  assert.equal(await renewed(agent, heldOf(elsewhere), place, now + DAY - 1000), elsewhere)
  domain.revokeAll(now + DAY)
  assert.equal(await renewed(agent, heldOf(renewal), place, now + DAY + 1000), renewal)
  assert.equal(readStatement(await new DomainStore(place, './acme.example').sign(about, 1, now)), undefined)
  writeFileSync(join(agent, 'statements.json'), '["x"]')
  assert.throws(() => heldStatements(agent), /is damaged/)
})

test('what a statement says is shown before it is checked, so it has plain names and times', async () => {
  const saying = async (more: object): Promise<ReturnType<typeof readStatement>> =>
    readStatement(await signedStatement(alice, more))
  assert.equal((await saying({}))?.subject, 'deployer')
  for (const more of [
    { sub: '\u001B[2Jdeployer' },
    { sub: 'deployer, until 2099. Installed: acme.example' },
    { jti: 'A A' },
    { cnf: { kid: 'a\nb' } },
    { exp: 1e300 },
    { iat: -1 },
  ])
    assert.equal(await saying(more), undefined, JSON.stringify(more))
})

test('an agent looks after its statement every hour, and says once that nobody here can renew it', async () => {
  const [agent, place] = [directory('watching'), directory('watched')]
  new TrustStore(agent).change(() => [])
  const domain = new DomainStore(place, 'acme.example')
  domain.init()
  const told: string[] = []
  let now = Date.now()
  const delays: number[] = []
  const watchIn = (domains: string): StatementWatch =>
    new StatementWatch(
      { dataDir: agent, domains },
      {
        now: () => now,
        later: (milliseconds) => {
          delays.push(milliseconds)
          return () => delays.pop()
        },
        ending: ({ domain: name, expiresAt }) => told.push(`${name} ${expiresAt}`),
      },
    )
  const [here, elsewhere] = [watchIn(place), watchIn(directory('elsewhere'))]
  const sign = async (days: number): Promise<string> =>
    await domain.sign({ agentId: alice.id, subject: 'deployer' }, days, now)
  const endOf = (): number => heldStatements(agent)[0]?.expiresAt ?? 0
  let watch = here
  const later = async (time: number): Promise<void> => {
    now += time
    await watch.look()
    assert.deepEqual(delays, [3_600_000])
  }
  await here.look()
  holdStatement(agent, await sign(30))
  const first = endOf()
  await later(22 * DAY)
  assert.equal(endOf(), first)
  await later(1.5 * DAY)
  assert.equal(
    endOf(),
    Math.floor(now / 1000) + (30 * DAY) / 1000,
    'renewed a week before, although nobody was shown it',
  )
  here.stop()
  assert.deepEqual(delays, [], 'it has stopped')
  watch = elsewhere
  await later(22 * DAY)
  assert.deepEqual(told, [])
  for (let hours = 0; hours < 3; hours++) await later(1.5 * DAY)
  assert.deepEqual(told, [`acme.example ${endOf()}`])
  // Once it is signed again, that begins anew. A short one is not about to end as soon as it is signed.
  holdStatement(agent, await sign(2))
  await later(DAY / 2)
  assert.equal(told.length, 1)
  await later(DAY)
  assert.equal(told.length, 2)
  // A file that cannot be read ends nothing.
  writeFileSync(join(agent, 'statements.json'), '["x"]')
  await later(DAY)
  elsewhere.stop()
  // One that is revoked is not renewed where its key is, so somebody has to know.
  holdStatement(agent, await renewable())
  domain.revokeAll(now + 1000)
  await here.look()
  here.stop()
  assert.equal(told.length, 3)

  async function renewable(): Promise<string> {
    rmSync(join(agent, 'statements.json'))
    const jwt = await sign(2)
    now += 1.5 * DAY
    return jwt
  }
})

test(
  'an agent tells its application of a statement that ends, once that can listen',
  { timeout: 20_000 },
  async (t) => {
    const agent = directory('ending')
    new TrustStore(agent).change(() => [])
    const domain = new DomainStore(directory('ending-domain'), 'acme.example')
    domain.init()
    const signedAt = Date.now() - 0.9 * DAY
    holdStatement(agent, await domain.sign({ agentId: alice.id, subject: 'deployer' }, 1, signedAt))
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const ending = Promise.withResolvers<{ readonly domain: string; readonly until: Date }>()
    const places = { trust: directory('ending-trust'), domains: directory('elsewhere'), dataDir: agent }
    const settings = { ...places, identity: 'alice', roots: [], proof: undefined, proxy: undefined, environment: {} }
    const listener = { changed: () => {}, failed: assert.fail, ending: ending.resolve }
    const desk = openProofDesk(settings, () => new Uint8Array(64), listener)
    const early = await Promise.race([
      ending.promise,
      new Promise((resolve) => setImmediate(() => resolve('nothing yet'))),
    ])
    assert.equal(early, 'nothing yet')
    t.mock.timers.tick(60_000)
    const { domain: name, until } = await ending.promise
    assert.deepEqual([name, until.getTime()], ['acme.example', (Math.floor(signedAt / 1000) + DAY / 1000) * 1000])
    desk.stop()
  },
)

test(
  'a function that gets tokens fails in its own words, and is not waited for forever',
  { timeout: 20_000 },
  async (t) => {
    const fails = async (mint: () => unknown, code: string, message: RegExp): Promise<void> => {
      await assert.rejects(callbackSource(mint as () => string).mint('a'), { code, message })
    }
    assert.deepEqual(await callbackSource((audience) => `for ${audience}`).mint('a'), { kind: 'token', jwt: 'for a' })
    const broken = (): never => {
      throw new Error('the metadata server is away')
    }
    await fails(broken, 'invalid_request', /^The function of `proof` failed: the metadata server is away$/)
    await fails(() => undefined, 'invalid_request', /it returned undefined, not a text/)
    await fails(() => Promise.reject(StaticError.of('unavailable', 'Later.')), 'unavailable', /^Later\.$/)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const waiting = fails(() => new Promise(() => {}), 'unavailable', /gave no token within 30 s/)
    t.mock.timers.tick(30_000)
    await waiting
  },
)

/** A token from the service of the runner, in a process that trusts this authority as it would those of the system. */
async function mintedInJob(env: Readonly<Record<string, string>>, audience: string): Promise<string> {
  const source = join(import.meta.dirname, '../../src/account/trust/sources.ts')
  const code = `import { githubActionsSource } from ${JSON.stringify(source)}
    process.stdout.write((await githubActionsSource(process.env).mint(${JSON.stringify(audience)})).jwt)`
  const options = { env: { ...env, NODE_EXTRA_CA_CERTS: web.caFile } }
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], options)
  return stdout
}

test('a job of GitHub Actions proves what it is', async () => {
  const seen: string[] = []
  web.pages.set(`${web.address}/token`, (request, response) => {
    const { searchParams } = new URL(request.url ?? '', GITHUB)
    seen.push(`${request.headers.authorization} ${searchParams.get('api')}`)
    const now = Math.floor(Date.now() / 1000)
    const claims = job(searchParams.get('audience') ?? '', { iat: now, nbf: now, exp: now + 300 })
    void issuers.github.sign(claims).then((value) => response.end(JSON.stringify({ count: 1, value })))
  })
  web.pages.set(
    'token.actions.githubusercontent.com/.well-known/jwks',
    JSON.stringify({ keys: [await issuers.github.jwk()] }),
  )
  const env = {
    ACTIONS_ID_TOKEN_REQUEST_URL: `https://${web.address}/token?api=2`,
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'secret',
  }
  const checker = openChecker(
    { directory: directory('trust-job'), identity: 'verifier', roots: [pinned('github:acme/*')] },
    () => {},
  )
  await checker.start()
  const proof = await alice.proof('token', (audience) => mintedInJob(env, audience))
  assert.equal(lineOf(await checker.check(proof, alice.context())), 'checked github acme/app refs/heads/main')
  checker.stop()
  await assert.rejects(githubActionsSource({}).mint('a'), /id-token: write/)
  // This process does not trust the authority, so it does not get as far as to show the secret.
  await assert.rejects(
    githubActionsSource(env).mint('a'),
    (error) => error instanceof StaticError && error.code === 'unavailable',
  )
  assert.deepEqual(seen, ['Bearer secret 2'])
  const file = directory('token.jwt')
  writeFileSync(file, `${await issuers.github.sign(job('fixed'))}\n`)
  assert.equal((await fileSource(file).mint('a')).kind, 'token')
})
