import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { openAuthority } from '@static/cli/authority'
import { makeAuthorityCertificate, makeKey, makeLeafCertificate } from '../src/authority/certificate.ts'
import { readConstraints } from '../src/authority/constraints.ts'
import { parseHostNames } from '../src/authority/names.ts'
import { handshake, staticError, temporaryDirectory } from './support.ts'

const names = ['relay.example', '192.0.2.7']
const years = (count: number) => (): Date => new Date(Date.now() + count * 365.25 * 86_400_000)

void test('the first start creates a constrained authority', async (t) => {
  const directory = await temporaryDirectory(t)
  const authority = await openAuthority({ directory, names })
  assert.deepEqual((await readdir(directory)).sort(), ['ca.key', 'ca.pem'])
  const modes = ['', 'ca.pem', 'ca.key'].map(async (name) => (await stat(join(directory, name))).mode & 0o777)
  assert.deepEqual(await Promise.all(modes), [0o700, 0o644, 0o600])
  assert.equal(authority.path, join(directory, 'ca.pem'))
  assert.equal(authority.cert, await readFile(authority.path, 'utf8'))

  const certificate = new X509Certificate(authority.cert)
  assert.match(certificate.subject, /^CN=Static local authority [0-9a-f]{8}$/)
  assert.equal(certificate.issuer, certificate.subject)
  assert.equal(certificate.ca, true)
  assert.ok(certificate.verify(certificate.publicKey))
  assert.equal(certificate.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1')
  assert.equal(certificate.serialNumber.length, 32)
  assert.ok(certificate.validToDate > years(9.99)() && certificate.validToDate < years(10.01)())
  const der = certificate.raw.toString('hex')
  assert.ok(der.includes('0603551d130101ff040830060101ff020100'), 'basicConstraints critical, CA, pathlen 0')
  assert.ok(der.includes('0603551d0f0101ff040403020106'), 'keyUsage critical, keyCertSign and cRLSign')
  assert.ok(der.includes('0603551d1e0101ff04'), 'nameConstraints critical')
  assert.ok(der.includes('0603551d0e0416'), 'subjectKeyIdentifier')
  const permitted = readConstraints(certificate.raw)?.map(({ text }) => text)
  assert.deepEqual(permitted, ['localhost', '127.0.0.1', '::1', 'relay.example', '192.0.2.7'])
  assert.deepEqual(authority.names, permitted)
})

void test('TLS clients that have ca.pem accept the issued names, and only them', async (t) => {
  const authority = await openAuthority({ directory: await temporaryDirectory(t), names })
  const all = ['localhost', '127.0.0.1', '::1', ...names]
  const server = await authority.issue(all)
  for (const host of all) await handshake(server, authority.cert, host)
  await assert.rejects(handshake(server, authority.cert, 'other.example'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
  const stranger = await openAuthority({ directory: await temporaryDirectory(t), names })
  await assert.rejects(handshake(server, stranger.cert, 'localhost'), /unable to (get local issuer|verify)/)
})

void test('TLS clients refuse a certificate for a name outside the constraints', async (t) => {
  const directory = await temporaryDirectory(t)
  const authority = await openAuthority({ directory, names })
  const key = createPrivateKey(await readFile(join(directory, 'ca.key')))
  const forge = async (...forged: string[]): Promise<void> => {
    const made = makeLeafCertificate({ key, notAfter: authority.notAfter }, parseHostNames(forged), 90, new Date())
    await handshake(await made, authority.cert, forged[0] ?? '')
  }
  await forge('localhost')
  await forge('below.relay.example')
  const outside = ['bank.example', 'example', 'notrelay.example', '192.0.2.8', '10.0.0.1', '::2', '2001:db8::1']
  for (const name of outside) await assert.rejects(forge(name), /permitted subtree violation/, name)
  await assert.rejects(forge('localhost', 'bank.example'), /permitted subtree violation/)
})

void test('without permitted addresses every address is refused by TLS clients', async () => {
  const key = createPrivateKey(makeKey())
  const ca = await makeAuthorityCertificate(key, parseHostNames(['localhost']), new Date())
  const forge = async (name: string): Promise<void> =>
    await handshake(
      await makeLeafCertificate({ key, notAfter: years(1)() }, parseHostNames([name]), 90, new Date()),
      ca,
      name,
    )
  await forge('localhost')
  for (const name of ['127.0.0.1', '::1']) await assert.rejects(forge(name), /excluded subtree violation/)
})

void test('an issued certificate is for servers, short-lived and a little backdated', async (t) => {
  const authority = await openAuthority({ directory: await temporaryDirectory(t), names })
  const [first, second] = [await authority.issue(['localhost']), await authority.issue(['localhost'], { days: 7 })]
  const certificate = new X509Certificate(first.cert)
  assert.equal(certificate.ca, false)
  assert.equal(certificate.subjectAltName, 'DNS:localhost')
  assert.deepEqual(certificate.keyUsage, ['1.3.6.1.5.5.7.3.1'])
  assert.ok(certificate.checkPrivateKey(createPrivateKey(first.key)))
  assert.notEqual(first.key, second.key)
  assert.equal(certificate.serialNumber.length, 32)
  assert.notEqual(certificate.serialNumber, new X509Certificate(second.cert).serialNumber)
  const minutes = (date: Date): number => Math.round((date.getTime() - Date.now()) / 60_000)
  assert.equal(minutes(certificate.validFromDate), -5)
  assert.equal(minutes(certificate.validToDate), 90 * 24 * 60)
  assert.equal(minutes(new X509Certificate(second.cert).validToDate), 7 * 24 * 60)
})

void test('an issued certificate does not outlive its authority', async (t) => {
  const directory = await temporaryDirectory(t)
  const { notAfter } = await openAuthority({ directory, names })
  const late = await openAuthority({ directory, names, now: years(9.9) })
  assert.deepEqual(new X509Certificate((await late.issue(['localhost'])).cert).validToDate, notAfter)
})

void test('the second start uses the same authority', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await openAuthority({ directory, names })
  const second = await openAuthority({ directory, names: ['RELAY.example.'] })
  assert.equal(second.cert, first.cert)
  const server = await second.issue(['localhost'])
  await handshake(server, first.cert, 'localhost')
})

void test('the second start does not load the certificate library, and the first leaves Reflect as it was', async (t) => {
  const directory = JSON.stringify(await temporaryDirectory(t))
  const start = promisify(execFile)
  const loaded = async (probe: string): Promise<string> => {
    const { stdout } = await start(process.execPath, ['--input-type=module', '-e', code(probe)])
    return stdout
  }
  const code = (probe: string): string => `
    import { createRequire } from 'node:module'
    import { serverCertificate } from ${JSON.stringify(new URL('../src/authority.ts', import.meta.url).href)}
    await serverCertificate(${directory}, [])
    const { cache } = createRequire(import.meta.url)
    console.log(Object.keys(cache).some((path) => path.includes('@peculiar')), ${probe})`
  assert.equal(await loaded(`'getMetadata' in Reflect || 'getOwnMetadata' in Reflect`), 'true false\n')
  assert.equal(await loaded('0'), 'false 0\n')
})

void test('a name that the authority cannot sign for is refused, with a remedy', async (t) => {
  const directory = await temporaryDirectory(t)
  const authority = await openAuthority({ directory, names })
  const refusal = staticError(
    'invalid_request',
    /can sign for localhost, .*, but not for new\.example\. Leave .* --cert and --key, or remove .*ca\.pem and .*ca\.key to/,
  )
  await assert.rejects(openAuthority({ directory, names: ['new.example'] }), refusal)
  await assert.rejects(authority.issue(['localhost', 'new.example']), refusal)
  await assert.rejects(authority.issue([]), staticError('invalid_request', /at least one name/))
  await assert.rejects(openAuthority({ directory, names: ['*'] }), staticError('invalid_request', /"\*" is neither/))
})

void test('files that others could have read or changed are refused', async (t) => {
  const directory = await temporaryDirectory(t)
  await openAuthority({ directory, names })
  const open = async (): Promise<unknown> => await openAuthority({ directory, names })
  await chmod(join(directory, 'ca.key'), 0o640)
  await assert.rejects(open(), staticError('store_permissions', /ca\.key is accessible .* `chmod 600 .*ca\.key`\.$/))
  await chmod(join(directory, 'ca.key'), 0o600)
  await chmod(join(directory, 'ca.pem'), 0o666)
  await assert.rejects(open(), staticError('store_permissions', /ca\.pem is writable .* `chmod 644 .*ca\.pem`\.$/))
  await chmod(join(directory, 'ca.pem'), 0o600)
  await open()
})

void test('a first start interrupted after the key continues with that key', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await openAuthority({ directory, names })
  const key = await readFile(join(directory, 'ca.key'), 'utf8')
  await rm(join(directory, 'ca.pem'))
  const second = await openAuthority({ directory, names })
  assert.equal(await readFile(join(directory, 'ca.key'), 'utf8'), key)
  assert.notEqual(second.cert, first.cert)
  // The same issuer: even clients with the lost certificate keep working.
  const server = await second.issue(['localhost'])
  await handshake(server, second.cert, 'localhost')
  await handshake(server, first.cert, 'localhost')
})

void test('a certificate without its key, or with another, is refused', async (t) => {
  const directory = await temporaryDirectory(t)
  await openAuthority({ directory, names })
  const open = async (): Promise<unknown> => await openAuthority({ directory, names })
  await writeFile(join(directory, 'ca.key'), makeKey())
  await assert.rejects(open(), staticError('invalid_request', /ca\.key is not the key of .*ca\.pem\./))
  await rm(join(directory, 'ca.key'))
  await assert.rejects(
    open(),
    staticError('invalid_request', /ca\.key, the key of .*ca\.pem, is missing\. Restore it, or remove/),
  )
  assert.deepEqual(await readdir(directory), ['ca.pem'])
})

void test('damaged and foreign files are refused', async (t) => {
  const directory = await temporaryDirectory(t)
  await openAuthority({ directory, names })
  const [certPath, keyPath] = [join(directory, 'ca.pem'), join(directory, 'ca.key')]
  const open = async (): Promise<unknown> => await openAuthority({ directory, names })
  const [cert, key] = [await readFile(certPath), createPrivateKey(await readFile(keyPath))]
  await writeFile(certPath, cert.subarray(0, 200))
  await assert.rejects(open(), staticError('invalid_request', /ca\.pem is not a certificate/))
  const leaf = await makeLeafCertificate({ key, notAfter: years(1)() }, parseHostNames(names), 90, new Date())
  await writeFile(certPath, leaf.cert)
  await writeFile(keyPath, leaf.key)
  await assert.rejects(open(), staticError('invalid_request', /not created by Static/))
  await writeFile(keyPath, '')
  await assert.rejects(open(), staticError('invalid_request', /ca\.key is not a private key/))
})

void test('an expired authority, or one from the future, is refused', async (t) => {
  const directory = await temporaryDirectory(t)
  await openAuthority({ directory, names })
  const expired = staticError(
    'invalid_request',
    /ca\.pem expired on 20\d\d-.*Z\. To continue, remove .*ca\.pem and .*ca\.key to create/,
  )
  await assert.rejects(openAuthority({ directory, names, now: years(10.01) }), expired)
  const early = staticError('invalid_request', /not valid before 20\d\d-.*Z\. Set the clock of this machine/)
  await assert.rejects(openAuthority({ directory, names, now: years(-1) }), early)
  await openAuthority({ directory, names, now: years(9.99) })
})

void test('concurrent first starts agree on one authority', async (t) => {
  const directory = await temporaryDirectory(t)
  const all = await Promise.all(Array.from({ length: 8 }, () => openAuthority({ directory, names })))
  assert.equal(new Set(all.map(({ cert }) => cert)).size, 1)
  for (const authority of all) await handshake(await authority.issue(['localhost']), authority.cert, 'localhost')
})
