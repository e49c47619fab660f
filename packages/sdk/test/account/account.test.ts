import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { readCredentials, resolveAccount, userPlaces, writeCredentials } from '../../src/account.ts'
import { deleteAccountChannel } from '../../src/account/delete-channel.ts'
import { newAuthority } from '@static/testkit/certificates'
import { refused } from '../transport/support.ts'

const USUAL = 'https://localhost:8443'

function home(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'static-account-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  return path
}

void test('the SDK reads what the command line writes, and only its user can', (t) => {
  const { credentials: path } = userPlaces({ HOME: home(t) })
  writeCredentials(path, { api_key: 'sk_live_a', api_url: 'https://api.example' })
  assert.deepEqual([statSync(path).mode & 0o777, statSync(join(path, '..')).mode & 0o777], [0o600, 0o700])
  writeCredentials(path, { api_key: 'sk_live_b', api_url: 'https://api.example', relay: 'quic://r', ca: '/ca.pem' })
  const kept = { api_key: 'sk_live_b', api_url: 'https://api.example', relay: 'quic://r', ca: '/ca.pem' }
  assert.deepEqual(readCredentials(path), kept)
  assert.deepEqual(readdirSync(join(path, '..')), ['credentials.json'])
})

void test('a location that cannot be written is named', (t) => {
  const file = join(home(t), 'file')
  writeFileSync(file, '')
  // The last one has room for no directory, and says that there is none to make it in.
  for (const directory of [file, join(file, 'below'), '/proc/static/below']) {
    assert.throws(
      () => writeCredentials(join(directory, 'credentials.json'), { api_key: 'k' }),
      refused('invalid_request', /credentials\.json cannot be written\./),
    )
  }
})

void test('a channel of an account cannot be deleted without a key, by a wrong name or with an option of agents', async () => {
  const options = { endpoint: 'quic://localhost:1', apiUrl: 'https://localhost:1', apiKey: 'sk_live_a' }
  const unknown = { ...options, identity: 'alice' } as object
  for (const [name, wrong, code] of [
    ['acme', options, 'channel_error'],
    [7 as never, options, 'channel_error'],
    ['acme/a/b', unknown, 'invalid_request'],
    ['acme/a/b', { ...options, apiKey: null }, 'api_key_required'],
    ['acme/a/b', { ...options, grpcPort: 0 }, 'invalid_request'],
    ['acme/a/b', { ...options, account: 'nobody' }, 'not_found'],
  ] as const) {
    await assert.rejects(deleteAccountChannel(name, wrong), { code })
  }
})

void test('an account comes from options, then the environment, then the file, then the default location', async (t) => {
  const HOME = home(t)
  assert.deepEqual(resolveAccount({}, USUAL, { HOME }), {
    apiUrl: USUAL,
    apiKey: undefined,
    ca: undefined,
    givenCa: undefined,
    relay: undefined,
    relayName: undefined,
    relayGrpcPort: undefined,
    places: userPlaces({ HOME }),
  })
  writeCredentials(userPlaces({ HOME }).credentials, { api_key: 'file', api_url: 'https://file', relay: 'quic://file' })
  const env = { HOME, STATIC_API_KEY: 'environment', STATIC_API_URL: 'https://environment' }
  const [fromFile, fromEnv] = [resolveAccount({}, USUAL, { HOME }), resolveAccount({}, USUAL, env)]
  assert.deepEqual([fromFile.apiKey, fromFile.apiUrl, fromFile.relay], ['file', 'https://file', 'quic://file'])
  assert.deepEqual(
    [fromEnv.apiKey, fromEnv.apiUrl, fromEnv.relay],
    ['environment', 'https://environment', 'quic://file'],
  )
  assert.equal(resolveAccount({ apiKey: 'option', apiUrl: 'https://option' }, USUAL, env).apiKey, 'option')

  // The authority of `static up` is found for this machine only, and only in a directory of the user's own.
  const { cert } = await newAuthority()
  const { server } = userPlaces({ HOME })
  mkdirSync(server, { recursive: true, mode: 0o700 })
  writeFileSync(join(server, 'ca.pem'), cert)
  assert.equal(resolveAccount({ apiUrl: USUAL }, USUAL, { HOME }).ca, cert)
  assert.equal(resolveAccount({ apiUrl: 'https://api.example' }, USUAL, { HOME }).ca, undefined)
  chmodSync(server, 0o755)
  assert.equal(resolveAccount({ apiUrl: USUAL }, USUAL, { HOME }).ca, undefined)
})
