/** The certificate of `static up --acme`: when it is ordered, and what happens if that fails. The authority is faked. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { StaticError } from '@static/protocol'
import { acmeOptions, publicCertificate, type PublicCertificateOptions } from '../../src/acme/public-certificate.ts'
import { startResponder } from '../../src/acme/responder.ts'
import { openAuthority } from '../../src/authority.ts'

const DAY_MS = 86_400_000
const NAME = 'static.example.com'
const home = mkdtempSync(join(tmpdir(), 'static-acme-'))
after(() => rmSync(home, { recursive: true }))
const authority = await openAuthority({ directory: join(home, 'authority'), names: [NAME] })
const begin = Date.now()

/** A server, its clock, and an authority that issues for 90 days. */
class Site {
  readonly dataDir: string
  readonly file: string
  orders = 0
  days = 0
  fault: string | undefined
  names: readonly string[] = [NAME]

  constructor(name: string) {
    this.dataDir = join(home, name)
    this.file = join(this.dataDir, 'acme/acme.example_14000', `${NAME}.pem`)
  }

  /** The serial number of the certificate to present. */
  async present(others: Partial<PublicCertificateOptions> = {}): Promise<string> {
    const { cert, key } = await publicCertificate({
      dataDir: this.dataDir,
      name: NAME,
      email: 'you@example.com',
      authority: 'https://acme.example:14000/dir',
      port: 80,
      now: () => new Date(begin + this.days * DAY_MS),
      order: async ({ accountKey }) => {
        this.orders++
        assert.match(accountKey, /PRIVATE KEY/)
        if (this.fault !== undefined) throw StaticError.of('unavailable', this.fault)
        return await authority.issue(this.names)
      },
      ...others,
    })
    assert.match(key, /PRIVATE KEY/)
    return new X509Certificate(cert).serialNumber
  }
}

test('a certificate is ordered once, kept where only the server can read it, and renewed in its last third', async () => {
  const site = new Site('once')
  const first = await site.present()
  assert.equal(statSync(site.file).mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(join(site.dataDir, 'acme/acme.example_14000')), ['account.key', `${NAME}.pem`])
  site.days = 59
  assert.equal(await site.present(), first)
  site.days = 61
  const second = await site.present()
  assert.notEqual(second, first)
  assert.equal(site.orders, 2)
})

test('a renewal that fails leaves the present certificate until it expires', async () => {
  const site = new Site('outage')
  const first = await site.present()
  site.fault = 'The authority is down.'
  site.days = 61
  assert.equal(await site.present(), first)
  site.days = 91
  await assert.rejects(site.present(), /The authority is down/)
  site.fault = undefined
  await assert.rejects(site.present(), /no usable certificate/)
})

test('a stored certificate is used only with its key, for the name, and from the same authority', async () => {
  const site = new Site('stored')
  const first = await site.present()
  const other = new Site('other')
  await other.present()
  const own = readFileSync(site.file, 'utf8')
  const [key = ''] = /^[^]*?(?=-----BEGIN CERT)/.exec(readFileSync(other.file, 'utf8')) ?? []
  for (const content of ['', own.slice(0, 200), own.replace(/^[^]*?(?=-----BEGIN CERT)/, key)]) {
    writeFileSync(site.file, content)
    assert.notEqual(await site.present(), first)
  }
  assert.equal(site.orders, 4)
  await site.present({ authority: 'https://staging.example/dir' })
  assert.equal(site.orders, 5)
  site.names = ['localhost']
  rmSync(site.file)
  await assert.rejects(site.present(), /no usable certificate/)
})

test('the flags are checked before anything is created', () => {
  const flags = { acme: 'you@example.com', acmeDirectory: 'https://acme.example/dir', acmePort: 80 }
  const dataDir = join(home, 'flags')
  assert.equal(acmeOptions({ ...flags, acme: undefined }, { dataDir }), undefined)
  assert.equal(acmeOptions(flags, { name: 'Static.Example.com:9443', dataDir })?.name, NAME)
  for (const [others, fault] of [
    [{}, /needs --name/],
    [{ name: '192.0.2.1' }, /a public DNS name/],
    [{ name: 'localhost' }, /a public DNS name/],
    [{ name: NAME, cert: 'chain.pem' }, /either --acme or --cert/],
  ] as const)
    assert.throws(() => acmeOptions(flags, { ...others, dataDir }), fault)
})

test('the responder answers the tokens of its order, and nothing else', async () => {
  const responder = await startResponder(0)
  responder.answer('token', 'token.thumbprint')
  const at = (path: string, method = 'GET'): Promise<string> =>
    fetch(`http://127.0.0.1:${responder.port}${path}`, { method }).then(async (r) => `${r.status} ${await r.text()}`)
  assert.equal(await at('/.well-known/acme-challenge/token'), '200 token.thumbprint')
  for (const path of ['/', '/.well-known/acme-challenge/', '/.well-known/acme-challenge/other', '/v1/accounts'])
    assert.equal(await at(path), '404 ')
  assert.equal(await at('/.well-known/acme-challenge/token', 'POST'), '404 ')
  const { port } = responder
  await assert.rejects(startResponder(port), /port \d+ for --acme: it is in use/)
  await responder.close()
  await assert.rejects(fetch(`http://127.0.0.1:${port}/`))
})
