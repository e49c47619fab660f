import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { inspect } from 'node:util'
import type { ChannelName, ErrorCode, TrafficProfileName } from '@static/protocol'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { encodeLink } from '../../src/admitting/link.ts'
import { encodeToken } from '../../src/admitting/token.ts'
import type { ClientOptions } from '../../src/gen/client-options.ts'
import { type ClientOption, OPTIONS as TABLE } from '../../src/public/option-table.ts'
import type { Environment } from '../../src/account/places.ts'
import { resolveSettings, type Settings } from '../../src/public/settings.ts'
import { writeRelayFile } from '../../src/store/relay-file.ts'
import { newAuthority } from '@static/testkit/certificates'
import { refused } from '../transport/support.ts'

const root = mkdtempSync(join(tmpdir(), 'static-settings-'))
after(() => rmSync(root, { recursive: true, force: true }))
const { cert, path: caPath } = await newAuthority()
const other = (await newAuthority()).cert
const KEY = 'sk_live_verySecret123'

let homes = 0
/** A home directory with a per-user file, and the environment of its user. */
function home(credentials?: unknown, mode = 0o600): Environment & { readonly HOME: string } {
  const HOME = join(root, String(++homes))
  mkdirSync(HOME)
  if (credentials !== undefined) {
    const text = typeof credentials === 'string' ? credentials : JSON.stringify(credentials)
    place(join(HOME, '.config/static/credentials.json'), text, mode)
  }
  return { HOME }
}

function place(path: string, text: string, mode: number): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(path, text)
  chmodSync(path, mode)
}

const OPTIONS = { endpoint: 'quic://relay.example', dataDir: '/agent', identity: 'billing' } as const

/** Checks the error, and that the key is in none. */
function throws(run: () => unknown, code: ErrorCode, message: RegExp): void {
  assert.throws(run, (error: unknown) => {
    assert.ok(!inspect(error, { depth: 20 }).includes(KEY), 'the key is in the error')
    return refused(code, message)(error)
  })
}

void test('options alone are sufficient', () => {
  const expected: Omit<Settings, 'proofs'> = {
    endpoint: {
      way: 'quic',
      addresses: [{ host: 'relay.example', port: 4433 }],
      serverName: 'relay.example',
      url: 'quic://relay.example:4433',
    },
    fallback: true,
    grpcPort: undefined,
    firstGrpcPort: undefined,
    dataDir: '/agent',
    identity: new TextEncoder().encode('billing'),
    apiKey: undefined,
    apiUrl: undefined,
    ca: undefined,
    traffic: 'standard',
    offers: 'anyone',
    receipts: 'settled',
    history: undefined,
    cellsPerSecond: 0,
    key: { type: 'file' },
    acceptRelay: undefined,
    acceptRolledBack: false,
    visibleFiles: false,
    connectTimeoutMs: 5000,
    logger: undefined,
    wait: false,
    adopt: undefined,
  }
  const { proofs, ...settings } = resolveSettings(OPTIONS, { ...home(), HTTPS_PROXY: 'http://proxy.example:3128' })
  assert.deepEqual(settings, expected)
  assert.deepEqual([proofs.roots, proofs.proof, proofs.identity], [undefined, undefined, 'billing'])
  assert.deepEqual(proofs.proxy, { url: 'http://proxy.example:3128', except: '' })
  const key = { type: 'passphrase', passphrase: 'x' } as const
  const more = {
    traffic: 'strict',
    offers: 'known',
    cellsPerSecond: 16,
    key,
    fallback: false,
    grpcPort: 5443,
    acceptRelay: 'AB '.repeat(32),
    acceptRolledBack: true,
    connectTimeoutMs: 1,
    logger: false,
  } as const
  const acceptRelay = new Uint8Array(32).fill(0xab)
  const { proofs: _, ...others } = resolveSettings({ ...OPTIONS, ...more }, home())
  assert.deepEqual(others, { ...expected, ...more, acceptRelay })
  assert.equal(resolveSettings({ ...OPTIONS, endpoint: 'https://relay.example' }, home()).fallback, false)
  assert.equal(resolveSettings(OPTIONS, { ...home(), STATIC_GRPC_PORT: '5443' }).grpcPort, 5443)
})

void test('the saved gRPC port is that of the saved relay, and gives way to what the relay announces', () => {
  const saved = { relay: 'quic://saved.example', relay_grpc_port: '5443' }
  const { endpoint: _, ...options } = OPTIONS
  const ports = (given: ClientOptions, env: Environment): unknown[] => {
    const { grpcPort, firstGrpcPort } = resolveSettings(given, env)
    return [grpcPort, firstGrpcPort]
  }
  assert.deepEqual(ports(options, home(saved)), [undefined, 5443])
  assert.deepEqual(ports({ ...options, grpcPort: 6000 }, home(saved)), [6000, 5443])
  assert.deepEqual(ports(OPTIONS, home(saved)), [undefined, undefined])
  assert.throws(() => ports(options, home({ ...saved, relay_grpc_port: '0' })), {
    code: 'invalid_request',
    message: /`grpcPort` is 0/,
  })
})

void test('the environment fills in what options leave out, the per-user file what both leave out', () => {
  const file = { api_key: 'file_key', api_url: 'https://file.example', relay: 'https://file-relay.example', ca: cert }
  const user = home(file)
  const environment = {
    ...user,
    STATIC_API_KEY: 'env_key',
    STATIC_API_URL: 'https://env.example',
    STATIC_RELAY: 'quic://192.0.2.1',
    STATIC_RELAY_NAME: 'env-relay.example',
    STATIC_DATA_DIR: '/env',
    STATIC_IDENTITY: 'env',
    STATIC_CA: caPath,
  }
  const summary = (options: ClientOptions, env: Environment): unknown[] => {
    const { apiKey, apiUrl, endpoint, dataDir, identity, ca } = resolveSettings(options, env)
    return [apiKey, apiUrl, endpoint.url, endpoint.serverName, dataDir, Buffer.from(identity).toString(), ca]
  }
  const options: ClientOptions = {
    apiKey: 'own_key',
    apiUrl: 'https://own.example',
    endpoint: 'quic://192.0.2.2',
    relayName: 'own-relay.example',
    dataDir: '/own',
    identity: 'own',
    ca: other,
  }
  assert.deepEqual(summary(options, environment), [
    'own_key',
    'https://own.example',
    'quic://192.0.2.2:4433',
    'own-relay.example',
    '/own',
    'own',
    other,
  ])
  const fromEnvironment = [
    'env_key',
    'https://env.example',
    'quic://192.0.2.1:4433',
    'env-relay.example',
    '/env',
    'env',
    cert,
  ]
  assert.deepEqual(summary({}, environment), fromEnvironment)
  const relay = 'file-relay.example'
  assert.deepEqual(summary({ dataDir: '/own', identity: 'own' }, user), [
    'file_key',
    'https://file.example',
    `https://${relay}:5000`,
    relay,
    '/own',
    'own',
    cert,
  ])
  // An empty variable counts as none.
  const empty = Object.fromEntries(Object.keys(environment).map((name) => [name, '']))
  assert.deepEqual(summary({ dataDir: '/own', identity: 'own' }, { ...empty, HOME: user.HOME })[0], 'file_key')
  // XDG's directory instead of the one at home; a relative one does not count.
  const xdg = { XDG_CONFIG_HOME: join(user.HOME, '.config') }
  assert.equal(summary({ dataDir: '/own', identity: 'own' }, { ...home(), ...xdg })[0], 'file_key')
  assert.throws(() => summary({ dataDir: '/own', identity: 'own' }, { ...home(), XDG_CONFIG_HOME: '.config' }))
})

void test('a named account has its own file, and variables of another one do not reach it', () => {
  const env: Environment = {
    ...home({ api_key: 'first_key', api_url: 'https://first.example', relay: 'quic://first.example' }),
    STATIC_API_KEY: 'env_key',
    STATIC_API_URL: 'https://env.example',
    STATIC_RELAY: 'quic://env.example',
    STATIC_CA: '/nowhere/env.pem',
  }
  const at = { dataDir: '/own', identity: 'own' } as const
  const summary = (options: ClientOptions, more: Environment = {}): unknown[] => {
    const { apiKey, apiUrl, endpoint, ca } = resolveSettings({ ...at, ...options }, { ...env, ...more })
    return [apiKey, apiUrl, endpoint.url, ca]
  }
  const missing = /^There is no account work on this machine\. None has a name\. `static login --account work` or/
  throws(() => summary({ account: 'work' }), 'not_found', missing)
  const work = { api_key: 'work_key', api_url: 'https://work.example', relay: 'quic://work.example' }
  place(join(env['HOME'] ?? '', '.config/static/accounts/work/credentials.json'), JSON.stringify(work), 0o600)
  const expected = ['work_key', 'https://work.example', 'quic://work.example:4433', undefined]
  assert.deepEqual(summary({ account: 'work' }), expected)
  assert.deepEqual(summary({}, { STATIC_ACCOUNT: 'work' }), expected)
  assert.deepEqual(summary({ account: 'work' }, { STATIC_ACCOUNT: 'play' }), expected)
  assert.equal(summary({ account: 'work', apiKey: 'own_key' })[0], 'own_key')
  assert.equal(summary({ ca: cert }, { STATIC_ACCOUNT: '' })[0], 'env_key')
  throws(
    () => summary({ account: 'play' }),
    'not_found',
    /no account play on this machine\. Those with a name: work\. /,
  )
  for (const name of ['../work', 'Work', '', '.x', 'a'.repeat(65)]) {
    throws(() => summary({ account: name }), 'invalid_request', /cannot be the name of an account|is empty/)
  }
  throws(() => summary({ account: 7 as never }), 'invalid_request', /^`account` is not a string/)
})

void test('a guest has no key, wherever one is configured', () => {
  const env = { ...home({ api_key: 'file_key' }), STATIC_API_KEY: KEY, STATIC_API_URL: 'https://api.example' }
  assert.equal(resolveSettings({ ...OPTIONS, apiKey: null }, env).apiKey, undefined)
  const { apiKey, apiUrl } = resolveSettings({ ...OPTIONS, apiUrl: 'https://api.example' }, home())
  assert.deepEqual([apiKey, apiUrl], [undefined, 'https://api.example'])
})

void test('an identity is 1 to 255 bytes, the first not zero', () => {
  const identityOf = (identity: Uint8Array | string): Uint8Array =>
    resolveSettings({ ...OPTIONS, identity }, home()).identity
  assert.deepEqual(identityOf('é'), Uint8Array.of(0xc3, 0xa9))
  const given = Buffer.of(1, 0, 255)
  const taken = identityOf(given)
  given.fill(9)
  assert.deepEqual(taken, Uint8Array.of(1, 0, 255))
  assert.equal(identityOf(new Uint8Array(255).fill(1)).length, 255)
})

const NO_CA = (): string => {
  const path = join(root, 'no-ca.pem')
  writeFileSync(path, 'hello')
  return path
}

const BAD: Record<string, [options: ClientOptions, code: ErrorCode, message: RegExp]> = {
  'no endpoint': [
    { dataDir: '/agent', identity: 'a' },
    'invalid_request',
    /^`endpoint` is required\. Set the option or STATIC_RELAY, or run `static signup` or `static login`, which save it\.$/,
  ],
  'no directory': [{ endpoint: OPTIONS.endpoint, identity: 'a' }, 'invalid_request', /`dataDir` .* STATIC_DATA_DIR\./],
  'no identity': [{ endpoint: OPTIONS.endpoint, dataDir: '/a' }, 'invalid_request', /`identity` .* STATIC_IDENTITY\./],
  'an empty text': [{ ...OPTIONS, endpoint: '' }, 'invalid_request', /^`endpoint` is empty\. /],
  'something that is no text': [
    { ...OPTIONS, dataDir: 7 as never },
    'invalid_request',
    /^`dataDir` is not a string\. /,
  ],
  'a bad endpoint': [{ ...OPTIONS, endpoint: 'relay' }, 'invalid_request', /^Invalid endpoint /],
  'an address without a name': [{ ...OPTIONS, endpoint: 'quic://192.0.2.1' }, 'invalid_request', /STATIC_RELAY_NAME/],
  'a key without an API': [{ ...OPTIONS, apiKey: KEY }, 'invalid_request', /`apiUrl` or STATIC_API_URL/],
  'plain HTTP': [{ ...OPTIONS, apiUrl: 'http://localhost' }, 'invalid_request', /https/],
  'a key with a line break': [
    { ...OPTIONS, apiKey: `${KEY}\n`, apiUrl: 'https://api.example' },
    'auth_key_invalid',
    /contains a space/,
  ],
  'an empty identity': [{ ...OPTIONS, identity: new Uint8Array(0) }, 'invalid_request', /1 to 255 bytes/],
  'a long identity': [{ ...OPTIONS, identity: 'é'.repeat(128) }, 'invalid_request', /1 to 255 bytes/],
  'an identity that begins with zero': [{ ...OPTIONS, identity: '\0x' }, 'invalid_request', /1 to 255 bytes/],
  'half a character': [{ ...OPTIONS, identity: 'x\ud800' }, 'invalid_request', /Unicode/],
  'a rate without the profile that has one': [{ ...OPTIONS, cellsPerSecond: 4 }, 'invalid_request', /profile strict/],
  'a rate that no relay accepts': [
    { ...OPTIONS, traffic: 'strict', cellsPerSecond: 65 },
    'invalid_request',
    /from 1 to 64/,
  ],
  'an unknown value for offers': [
    { ...OPTIONS, offers: 'friends' as 'known' },
    'invalid_request',
    /anyone, known, none/,
  ],
  'an unknown profile': [{ ...OPTIONS, traffic: 'loud' as TrafficProfileName }, 'invalid_request', /standard, private/],
  'an unknown option': [
    { ...OPTIONS, key: undefined, datadir: '/b' } as never,
    'invalid_request',
    /^`connect` has no option `datadir`\. The nearest is `dataDir`\.$/,
  ],
  'options that are not an object': [
    '/agent' as never,
    'invalid_request',
    /^The options of `connect` must be an object/,
  ],
  'no time': [{ ...OPTIONS, connectTimeoutMs: 0 }, 'invalid_request', /`connectTimeoutMs`/],
  'an invalid flag': [
    { ...OPTIONS, fallback: 'no' as never },
    'invalid_request',
    /^`fallback` is .*It must be true or false/,
  ],
  'no port': [{ ...OPTIONS, grpcPort: 0 }, 'invalid_request', /^`grpcPort` is 0\. .*from 1 to 65535/],
  'a port that is too high': [{ ...OPTIONS, grpcPort: 65_536 }, 'invalid_request', /^`grpcPort` is 65536/],
  'an invalid relay': [{ ...OPTIONS, acceptRelay: 'the next' }, 'invalid_request', /^`acceptRelay` is 'the next'\./],
  'a missing CA': [{ ...OPTIONS, ca: '/no/ca.pem' }, 'invalid_request', /^The CA file \/no\/ca\.pem cannot be read\.$/],
  'a CA file without a certificate': [{ ...OPTIONS, ca: NO_CA() }, 'invalid_request', /contains no PEM certificate/],
  'a broken certificate': [
    { ...OPTIONS, ca: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n' },
    'invalid_request',
    /^The CA contains a certificate that cannot be parsed\.$/,
  ],
}

for (const [name, [options, code, message]] of Object.entries(BAD)) {
  void test(`${name} is refused`, () => throws(() => resolveSettings(options, home()), code, message))
}

void test('a per-user file that others can access, or that is malformed, is refused', () => {
  const run = (env: Environment) => () => resolveSettings(OPTIONS, env)
  const whole = { api_key: KEY, api_url: 'https://api.example' }
  for (const mode of [0o640, 0o604, 0o620, 0o644]) {
    throws(
      run(home(whole, mode)),
      'store_permissions',
      /credentials\.json is accessible by other users: run `chmod 600/,
    )
  }
  for (const [text, message] of [
    [`{"api_key": "${KEY}"`, /credentials\.json is not JSON\.$/],
    [`"${KEY}"`, /credentials\.json is not a JSON object\.$/],
    ['[]', /credentials\.json is not a JSON object\.$/],
    ['{"api_key": 7}', /credentials\.json is invalid: api_key must be a non-empty string\.$/],
    ['{"relay": ""}', /credentials\.json is invalid: relay must be a non-empty string\.$/],
  ] as const) {
    throws(run(home(text)), 'invalid_request', message)
  }
  const { HOME } = home()
  mkdirSync(join(HOME, '.config/static/credentials.json'), { recursive: true })
  throws(run({ HOME }), 'invalid_request', /credentials\.json is not a regular file\.$/)
  const odd = home()
  writeFileSync(join(odd.HOME, '.config'), '')
  throws(run(odd), 'invalid_request', /credentials\.json cannot be read\.$/)
  // Unknown fields are those of a later version; null is none.
  assert.equal(resolveSettings(OPTIONS, home({ later: 1, api_key: null })).apiKey, undefined)
})

void test('only certificates are read from a CA file, and a path in the per-user file is relative to it', () => {
  const mixed = `${cert}\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n${other}`
  assert.equal(resolveSettings({ ...OPTIONS, ca: mixed }, home()).ca, cert + other)
  const env = home({ ca: 'ca.pem' })
  writeFileSync(join(env.HOME, '.config/static/ca.pem'), cert)
  assert.equal(resolveSettings(OPTIONS, env).ca, cert)
})

void test('the CA of `static up` is found on this machine, and only for this machine', () => {
  const env = home()
  const directory = join(env.HOME, '.local/share/static/server')
  place(join(directory, 'ca.pem'), cert, 0o644)
  chmodSync(directory, 0o700)
  const caOf = (options: ClientOptions, more: Environment = {}): string | undefined =>
    resolveSettings({ ...OPTIONS, ...options }, { ...env, ...more }).ca
  const near = { apiKey: KEY, apiUrl: 'https://localhost:8443' }
  const far = { apiKey: KEY, apiUrl: 'https://api.example' }
  for (const endpoint of ['quic://localhost', 'https://127.0.0.1', 'quic://[::1]']) {
    assert.equal(caOf({ endpoint }), cert, endpoint)
    assert.equal(caOf({ endpoint, ...near }), cert, endpoint)
    assert.equal(caOf({ endpoint, apiKey: KEY, apiUrl: 'https://[::1]:8443' }), cert, endpoint)
    assert.equal(caOf({ endpoint, ...far }), undefined, endpoint)
    // The API is not used by a guest.
    assert.equal(caOf({ endpoint, ...far, apiKey: null }), cert, endpoint)
    assert.equal(caOf({ endpoint, ca: other }), other, endpoint)
  }
  assert.equal(caOf({}), undefined)
  assert.equal(caOf(near), undefined)

  const endpoint = 'quic://localhost'
  assert.equal(caOf({ endpoint }, { ...home(), XDG_DATA_HOME: join(env.HOME, '.local/share') }), cert)
  assert.equal(caOf({ endpoint }, home()), undefined)
  for (const mode of [0o755, 0o770, 0o701]) {
    chmodSync(directory, mode)
    assert.equal(caOf({ endpoint }), undefined, mode.toString(8))
  }
  chmodSync(directory, 0o700)
  rmSync(join(directory, 'ca.pem'))
  assert.equal(caOf({ endpoint }), undefined)
  symlinkSync('/dev/zero', join(directory, 'ca.pem'))
  assert.equal(caOf({ endpoint }), undefined)
})

/** A link to a relay, with the CA `other`. */
function linkTo(endpoint: string, relay = 'linked.example'): string {
  const token = encodeToken({
    admit: 'owner',
    expiresAt: 4_000_000_000_000,
    secret: new Uint8Array(32),
    owner: new Uint8Array(32),
    channelId: new Uint8Array(16),
    name: 'acme/support/routing' as ChannelName,
    relay,
  })
  const parts = { grpcPort: 5443, relayId: new Uint8Array(32).fill(7), ca: other, token }
  return encodeLink({ ...parts, endpoint: parseEndpoint(endpoint, { relayName: relay }) })
}

/** Where a client with these settings connects, and with what. */
function relayOf(settings: Settings): unknown[] {
  const { endpoint, ca, apiKey, apiUrl } = settings
  return [endpoint.url, endpoint.serverName, ca, apiKey, apiUrl]
}

void test('a link names the relay for an agent that has none; the agent is a guest there, whatever is configured', () => {
  const link = linkTo('quic://192.0.2.7:4434')
  const guest = ['quic://192.0.2.7:4434', 'linked.example', other, undefined, undefined]
  const whole = { api_key: KEY, api_url: 'https://api.example', relay: 'quic://own.example', ca: cert }
  const rest = { identity: 'billing', link }
  for (const env of [home(), home(whole), { ...home(whole), STATIC_API_KEY: KEY, STATIC_CA: caPath }]) {
    for (const extra of [{}, { apiKey: KEY, apiUrl: 'https://api.example' }]) {
      const settings = resolveSettings({ ...rest, ...extra, dataDir: join(env.HOME, 'agent') }, env)
      assert.deepEqual(relayOf(settings), guest)
      assert.deepEqual([settings.acceptRelay, settings.firstGrpcPort], [new Uint8Array(32).fill(7), 5443])
    }
  }
  // What the agent uses if it has met another relay.
  const env = home(whole)
  const { adopt } = resolveSettings({ ...rest, dataDir: join(env.HOME, 'agent') }, env)
  assert.equal(adopt?.otherwise?.endpoint.url, 'quic://own.example:4433')
})

void test('a link to the configured endpoint changes nothing about it: neither CA nor key', () => {
  const link = linkTo('quic://own.example:4433', 'own.example')
  const whole = { api_key: KEY, api_url: 'https://api.example', relay: 'quic://own.example', ca: cert }
  const own = ['quic://own.example:4433', 'own.example', cert, KEY, 'https://api.example']
  const env = home(whole)
  const settings = resolveSettings({ identity: 'billing', dataDir: join(env.HOME, 'agent'), link }, env)
  assert.deepEqual([...relayOf(settings), settings.adopt, settings.acceptRelay], [...own, undefined, undefined])
  // An endpoint that is given explicitly is never replaced either.
  const given = resolveSettings({ ...OPTIONS, link: linkTo('quic://192.0.2.7') }, home())
  assert.deepEqual([given.endpoint.url, given.adopt], ['quic://relay.example:4433', undefined])
})

void test('an agent remembers the relay of its link: it comes before the per-user file, without its key', () => {
  const whole = { api_key: KEY, api_url: 'https://api.example', relay: 'quic://own.example', ca: cert }
  const env = home(whole)
  const dataDir = join(env.HOME, 'agent')
  mkdirSync(dataDir, { mode: 0o700 })
  writeRelayFile(dataDir, { endpoint: 'quic://192.0.2.7:4434', relayName: 'linked.example', ca: other })
  const options = { identity: 'billing', dataDir }
  const guest = ['quic://192.0.2.7:4434', 'linked.example', other, undefined, undefined]
  assert.deepEqual(relayOf(resolveSettings(options, env)), guest)
  // A later link, to another relay, does not replace it.
  const again = resolveSettings({ ...options, link: linkTo('quic://192.0.2.8') }, env)
  assert.deepEqual([...relayOf(again), again.adopt], [...guest, undefined])
  // Explicitly, the same agent can be used with its own relay and key; the CA of the link is not trusted with them.
  const explicit = resolveSettings({ ...options, endpoint: 'quic://own.example' }, env)
  assert.deepEqual(relayOf(explicit), ['quic://own.example:4433', 'own.example', cert, KEY, 'https://api.example'])
  const named = { ...options, endpoint: 'quic://192.0.2.7:4434', relayName: 'linked.example' }
  assert.deepEqual(
    relayOf(resolveSettings(named, home({ api_key: KEY, api_url: 'https://api.example' }))).slice(2, 4),
    [undefined, KEY],
  )
  assert.deepEqual(relayOf(resolveSettings(named, home())).slice(2, 4), [other, undefined])
  place(join(dataDir, 'relay.json'), '{"version":2}', 0o600)
  throws(() => resolveSettings(options, env), 'store_corrupt', /relay\.json is damaged/)
  chmodSync(join(dataDir, 'relay.json'), 0o644)
  throws(() => resolveSettings(options, env), 'store_permissions', /relay\.json is accessible by other users/)
})

void test('SPEC.md names the variable of each option and its field in the per-user file', () => {
  const spec = readFileSync(join(import.meta.dirname, '../../../../SPEC.md'), 'utf8')
  const [, section = ''] = /^### 5\.6 Settings\n([\s\S]*?)^###/m.exec(spec) ?? []
  const rows = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \| (?:`(\w+)` )?\|$/gm)].map(([, ...row]) => row)
  const options: readonly (readonly [string, ClientOption])[] = Object.entries(TABLE)
  const known = options.flatMap(([name, { variable, file }]) =>
    variable === undefined ? [] : [[name, variable, file]],
  )
  assert.deepEqual(rows.map(String).sort(), known.map(String).sort())
})

void test('a relative directory needs a current one', () => {
  const before = process.cwd()
  const gone = join(root, 'gone')
  mkdirSync(gone)
  process.chdir(gone)
  try {
    rmSync(gone, { recursive: true })
    const user = home()
    assert.equal(resolveSettings(OPTIONS, user).dataDir, '/agent')
    throws(
      () => resolveSettings({ ...OPTIONS, dataDir: './agent' }, user),
      'invalid_request',
      /^`dataDir` is \.\/agent, but/,
    )
  } finally {
    process.chdir(before)
  }
})

void test('a history has from 1 to 365 days, or is none', () => {
  for (const history of [{ days: 1 }, { days: 365 }, false] as const)
    assert.deepEqual(resolveSettings({ ...OPTIONS, history }, home()).history, history)
  for (const history of [{ days: 0 }, { days: 366 }, { days: 1.5 }, { days: '30' }, {}, true, 30, { days: 3, day: 2 }])
    assert.throws(
      () => resolveSettings({ ...OPTIONS, history: history as never }, home()),
      refused('invalid_request', /`history` is .*1 to 365, or false/),
    )
})
