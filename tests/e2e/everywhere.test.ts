/** `static up --host 0.0.0.0`: what it prints works from other machines, by the addresses of this one. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { StaticClient } from '@static/sdk'
import { makeClient } from '@static/testkit/server/client'
import { startCommand } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

interface Line {
  readonly api_url: string
  readonly relay_quic: readonly string[]
  readonly relay_grpc: string
  readonly relay_name?: string
}

const outside = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address
const skip = outside === undefined && 'this machine has no address but loopback'

test(
  'API and relay are reached by the address that is printed, with the certificate of the authority',
  { skip },
  async () => {
    const dataDir = workspace.directory('data')
    const ports = ['--api-port', '0', '--grpc-port', '0', '--quic-port', '0', '--no-files', '--quic-endpoints', '1']
    const words = ['up', '--json', '--host', '0.0.0.0', '--data-dir', dataDir, '--log-level', 'silent', ...ports]
    {
      await using server = await startCommand<Line>(words)
      const { api_url: url, relay_quic: quic, relay_grpc: grpc, relay_name: relayName } = server.ready
      assert.equal(new URL(url).hostname, outside)
      const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
      const client = makeClient(url, ca)
      assert.equal((await client.call({ path: '/health' })).status, 200)
      client.close()
      for (const endpoint of [...quic, grpc]) {
        assert.ok(endpoint.includes(`//${outside}:`), endpoint)
        const agent = await StaticClient.connect({
          endpoint,
          ...(relayName === undefined ? {} : { relayName }),
          ca,
          apiKey: null,
          identity: 'guest',
          dataDir: join(workspace.path, 'guest'),
          fallback: false,
        })
        await agent.close()
      }
    }
    // The authority of another start, for loopback only: the server starts, and says what does not work.
    const older = workspace.directory('older')
    const first = await startCommand<Line>(['up', '--json', '--data-dir', older, '--log-level', 'silent', ...ports])
    await first.end('SIGTERM')
    await using second = await startCommand<Line>(words.with(words.indexOf(dataDir), older))
    assert.match(second.errors(), /was not created for .*: clients cannot use/)
    assert.equal(new URL(second.ready.api_url).hostname, 'localhost')
  },
)
