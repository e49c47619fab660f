import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { connect } from 'node:tls'
import { dialQuic } from '@static/quic'
import { startServer } from '@static/testkit/server'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

test('relay and API show clients that name them a certificate that BoringSSL verifies with ca.pem', async () => {
  using workspace = await makeWorkspace()
  const dataDir = workspace.directory('up')
  await using server = await startServer({ workspace, dataDir, command: 'up', settings: QUICK })
  const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  const ports = [server.relay.grpcPort, Number(new URL(server.url).port)]
  const shown = async (port: number, servername: string): Promise<X509Certificate> => {
    const socket = connect({ host: '127.0.0.1', port, servername, ca })
    await once(socket, 'secureConnect')
    const certificate = socket.getPeerX509Certificate()
    socket.destroy()
    assert.ok(certificate)
    return certificate
  }
  for (const port of ports) {
    // PyPI's grpcio and Bun send the name, and their BoringSSL refuses addresses under the constraints of the CA.
    const named = await shown(port, 'localhost')
    assert.equal(named.subjectAltName, 'DNS:localhost')
    // The QUIC library's TLS is BoringSSL as well: it verifies the very same certificate.
    assert.equal(named.toString(), readFileSync(join(dataDir, 'quic.pem'), 'utf8'))
    // By address, without a name: TLS that knows constraints on addresses goes on working.
    assert.match((await shown(port, '')).subjectAltName ?? '', /IP Address:127\.0\.0\.1/)
  }
  const target = { host: '127.0.0.1', port: server.relay.quicPort, serverName: 'localhost', ca }
  const connection = await dialQuic('127.0.0.1', target)
  await connection.close()
})

test('a replaced certificate is used for new connections: on SIGHUP, and when the files change', async () => {
  using workspace = await makeWorkspace()
  await using server = await startServer({ workspace, dataDir: workspace.directory('api'), settings: QUICK })
  const shown = async (): Promise<string> => {
    const socket = connect({ host: 'localhost', port: Number(new URL(server.url).port), ca: workspace.ca })
    await once(socket, 'secureConnect')
    const { fingerprint256 } = socket.getPeerCertificate()
    socket.destroy()
    return fingerprint256
  }
  const replace = async (): Promise<void> => {
    const { cert, key } = await workspace.authority.issue(['localhost', '127.0.0.1', '::1'])
    writeFileSync(workspace.keyFile, key)
    writeFileSync(workspace.certFile, cert)
  }
  for (const signal of ['SIGHUP', undefined] as const) {
    const before = await shown()
    await replace()
    if (signal !== undefined) process.kill(server.pid, signal)
    for (let tries = 0; (await shown()) === before; tries++) {
      assert.ok(tries < 600, `the certificate is not replaced (${signal ?? 'files'})`)
      await wait(50)
    }
  }
  using client = makeClient(server.url, workspace.ca)
  const { text } = await client.call({ path: '/metrics' })
  const expiry = /^static_api_certificate_expiry_timestamp_seconds (\d+)$/m.exec(text)?.[1]
  assert.ok(Number(expiry) * 1000 > Date.now(), text.slice(0, 200))
})
