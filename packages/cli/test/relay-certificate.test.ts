/** What `static doctor` says about the certificate of a relay. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { createServer } from 'node:tls'
import { HYBRID_GROUP } from '@static/node/tls-groups'
import { openAuthority } from '../src/authority.ts'
import { keyAgreement, QUIC_CONNECTION } from '../src/doctor/key-agreement.ts'
import { checkRelayCertificate } from '../src/doctor/relay-certificate.ts'

const DAY = 86_400_000

/** A port that presents this certificate. */
async function serve(t: TestContext, certificate: { readonly cert: string; readonly key: string }): Promise<string> {
  const server = createServer({ ...certificate, minVersion: 'TLSv1.3' }, (socket) => socket.on('error', () => {}))
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a relay certificate is checked for name, trust and expiry', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'static-doctor-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const made = Date.now() - 100 * DAY
  const names = ['relay.test']
  const authority = await openAuthority({ directory: join(home, 'ca'), names, now: () => new Date(made) })
  const foreign = await openAuthority({ directory: join(home, 'other'), names: [], now: () => new Date(made) })
  const { cert: ca } = authority
  const check = async (
    certificate: Promise<{ readonly cert: string; readonly key: string }>,
  ): Promise<[boolean | null | undefined, string | undefined]> => {
    const { findings, connections } = await checkRelayCertificate(await serve(t, await certificate), { ca }, [])
    const [found] = findings
    assert.deepEqual(connections, [{ name: 'relay over gRPC', group: HYBRID_GROUP }])
    assert.equal(found?.check, 'relay certificate')
    return [found.ok, found.detail]
  }
  const judged = async (
    certificate: Promise<{ readonly cert: string; readonly key: string }>,
    isOk: boolean,
    detail: RegExp,
  ): Promise<void> => {
    const [found, text = ''] = await check(certificate)
    assert.equal(found, isOk, text)
    assert.match(text, detail)
  }
  await judged(authority.issue(['localhost'], { days: 200 }), true, /^for localhost, trusted, valid until 20/)
  await judged(authority.issue(['localhost'], { days: 30 }), false, /expired on 20.*Renew it on the relay/)
  await judged(authority.issue(['localhost'], { days: 104 }), false, /expires on 20.*Renew it/)
  await judged(authority.issue(['relay.test'], { days: 200 }), false, /is for DNS:relay\.test, not for localhost/)
  await judged(foreign.issue(['localhost'], { days: 200 }), false, /is not trusted \(.*\)\. Pass its CA/)
})

test('a relay that does not answer over TCP has no finding of its own', async () => {
  const nothing = { findings: [], connections: [] }
  assert.deepEqual(await checkRelayCertificate('https://127.0.0.1:1', { ca: undefined }, []), nothing)
})

test('the port of a relay that does not tell it to guests is not guessed', async () => {
  const nodes = [{ finding: { check: 'relay', ok: true, detail: 'responds' }, grpcPort: undefined }]
  const { findings, connections } = await checkRelayCertificate('quic://127.0.0.1:1', { ca: undefined }, nodes)
  assert.deepEqual(connections, [QUIC_CONNECTION])
  assert.deepEqual(
    findings.map(({ check, ok }) => [check, ok]),
    [['relay certificate', null]],
  )
})

test('every connection that was checked is named with its key agreement, once', () => {
  const connections = [
    { name: 'API', group: HYBRID_GROUP },
    { name: 'relay over gRPC', group: 'X25519' },
    { name: 'relay over gRPC', group: 'X25519' },
    { name: 'proxy', group: undefined },
  ]
  const detail =
    'API: X25519MLKEM768 (post-quantum hybrid), relay over gRPC: X25519 (not post-quantum), proxy: unknown. Messages are sealed in addition'
  assert.deepEqual(keyAgreement(connections), [{ check: 'key agreement', ok: true, detail }])
  assert.deepEqual(keyAgreement([]), [])
})
