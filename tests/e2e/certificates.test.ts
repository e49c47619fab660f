import assert from 'node:assert/strict'
import type { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect } from 'node:tls'
import { dialQuic } from '@static/node/quic'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

test('the relay serves gRPC clients a certificate that BoringSSL verifies with ca.pem', async () => {
  using workspace = await makeWorkspace()
  const dataDir = workspace.directory('up')
  await using server = await startServer({ workspace, dataDir, command: 'up', settings: QUICK })
  const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  const shown = async (servername: string): Promise<X509Certificate> => {
    const socket = connect({ host: '127.0.0.1', port: server.relay.grpcPort, servername, ca })
    await once(socket, 'secureConnect')
    const certificate = socket.getPeerX509Certificate()
    socket.destroy()
    assert.ok(certificate)
    return certificate
  }
  // PyPI's grpcio sends the name, and its BoringSSL refuses addresses under the constraints of the CA.
  const named = await shown('localhost')
  assert.equal(named.subjectAltName, 'DNS:localhost')
  // The QUIC library's TLS is BoringSSL too: it verifies the very same certificate.
  assert.equal(named.toString(), readFileSync(join(dataDir, 'quic.pem'), 'utf8'))
  const target = { host: '127.0.0.1', port: server.relay.quicPort, serverName: 'localhost', ca }
  const connection = await dialQuic('127.0.0.1', target)
  await connection.close()
  // By address, without a name: TLS that knows constraints on addresses goes on working.
  assert.match((await shown('')).subjectAltName ?? '', /IP Address:127\.0\.0\.1/)
})
