import assert from 'node:assert/strict'
import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openAuthority, serverCertificate } from '@static/cli/authority'
import { makeKey } from '../src/authority/certificate.ts'
import { handshake, staticError, temporaryDirectory } from './support.ts'

const names = ['relay.example', '2001:db8::7']
const days = (count: number) => (): Date => new Date(Date.now() + count * 86_400_000)

void test('the first call creates the certificate, the second reuses it', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await serverCertificate(directory, names)
  assert.equal(first.renewed, true)
  assert.deepEqual((await readdir(directory)).sort(), ['ca.key', 'ca.pem', 'server.key', 'server.pem'])
  assert.equal((await stat(join(directory, 'server.key'))).mode & 0o777, 0o600)
  for (const host of ['localhost', '127.0.0.1', '::1', ...names]) await handshake(first, first.authority.cert, host)

  // The same names, in another order and spelling.
  const second = await serverCertificate(directory, ['2001:DB8:0::7', 'Relay.Example', 'localhost'])
  assert.equal(second.renewed, false)
  assert.deepEqual([second.cert, second.key], [first.cert, first.key])
})

void test('it is renewed, with a new key, 30 days before it expires', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await serverCertificate(directory, names)
  assert.equal((await serverCertificate(directory, names, { now: days(59.9) })).renewed, false)
  const renewed = await serverCertificate(directory, names, { now: days(60.1) })
  assert.equal(renewed.renewed, true)
  assert.notEqual(renewed.key, first.key)
  assert.equal(await readFile(join(directory, 'server.pem'), 'utf8'), renewed.cert)
  assert.equal((await serverCertificate(directory, names, { now: days(61) })).cert, renewed.cert)
})

void test('a certificate from the future is reissued', async (t) => {
  const directory = await temporaryDirectory(t)
  await serverCertificate(directory, names)
  await serverCertificate(directory, names, { now: days(70) })
  const now = await serverCertificate(directory, names)
  assert.equal(now.renewed, true)
  await handshake(now, now.authority.cert, 'localhost')
})

void test('other names lead to a new certificate', async (t) => {
  const directory = await temporaryDirectory(t)
  await serverCertificate(directory, names)
  const fewer = await serverCertificate(directory, ['relay.example'])
  assert.equal(fewer.renewed, true)
  await assert.rejects(handshake(fewer, fewer.authority.cert, '2001:db8::7'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  assert.equal((await serverCertificate(directory, names)).renewed, true)
})

void test('a new authority leads to a new certificate', async (t) => {
  const directory = await temporaryDirectory(t)
  await serverCertificate(directory, names)
  for (const name of ['ca.pem', 'ca.key']) await rm(join(directory, name))
  const second = await serverCertificate(directory, names)
  assert.equal(second.renewed, true)
  await handshake(second, second.authority.cert, 'localhost')
})

void test('files left by a crash between key and certificate are replaced', async (t) => {
  const directory = await temporaryDirectory(t)
  const leftovers = [
    async () => await writeFile(join(directory, 'server.key'), makeKey()),
    async () => await rm(join(directory, 'server.pem')),
    async () => await rm(join(directory, 'server.key')),
    async () => await writeFile(join(directory, 'server.pem'), 'half'),
  ]
  await serverCertificate(directory, names)
  for (const leave of leftovers) {
    await leave()
    const repaired = await serverCertificate(directory, names)
    assert.equal(repaired.renewed, true)
    await handshake(repaired, repaired.authority.cert, 'localhost')
    assert.equal((await serverCertificate(directory, names)).renewed, false)
  }
})

void test('a readable server.key is refused', async (t) => {
  const directory = await temporaryDirectory(t)
  await serverCertificate(directory, names)
  await chmod(join(directory, 'server.key'), 0o644)
  const refusal = staticError('store_permissions', /server\.key is accessible .* `chmod 600 .*server\.key`\.$/)
  await assert.rejects(serverCertificate(directory, names), refusal)
})

void test('concurrent calls all get a working certificate', async (t) => {
  const directory = await temporaryDirectory(t)
  const all = await Promise.all(Array.from({ length: 8 }, () => serverCertificate(directory, names)))
  const { cert } = await openAuthority({ directory, names })
  for (const server of all) await handshake(server, cert, 'localhost')
  await handshake(await serverCertificate(directory, names), cert, 'localhost')
})
