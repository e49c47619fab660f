/** `static up` behind a load balancer that announces its clients by the PROXY protocol. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { askOver, connectBalanced, proxyHeader } from '@static/testkit/proxy-header'
import { failCommand, startCommand } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

const words = (name: string, from: string): readonly string[] => {
  const ports = ['--api-port', '0', '--grpc-port', '0', '--quic-port', '0', '--no-files']
  return ['up', '--json', '--data-dir', workspace.directory(name), ...ports, '--proxy-protocol-from', from]
}

test('API and relay take only announced clients from a balancer', async () => {
  await using server = await startCommand<{ api_url: string; relay_grpc: string; ca: string }>(
    words('served', '10.0.0.0/8, 127.0.0.1'),
  )
  const { api_url: api, relay_grpc: relay, ca: file } = server.ready
  const ca = await readFile(file, 'utf8')
  for (const url of [api, relay]) {
    const port = Number(new URL(url).port)
    await assert.rejects(connectBalanced({ port, ca, parts: [] }))
    const socket = await connectBalanced({ port, ca, parts: [proxyHeader('192.0.2.7')] })
    assert.match(await askOver(socket, '/health'), /^HTTP\/1\.1 200 /)
  }
})

test('a balancer that is not an address is refused at the start', async () => {
  const { code, errors } = await failCommand(words('refused', '10.0.0.0/8,balancer'))
  assert.equal(code, 1)
  assert.match(errors, /balancer\\" is neither an IP address nor a network/)
})
