/** The logs of an API and a relay beside each other: one request id in both, nothing about clients unasked. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startApi } from '@static/api'
import { startRelay } from '@static/relay'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { connectAgent, hangUp, openChannel, tokenOf } from '../support/agents.ts'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

interface Line {
  readonly msg: string
  readonly request_id?: string
  readonly route?: string
  readonly path?: string
  readonly status?: number
  readonly address?: string
  readonly account?: string
}

for (const logClients of [false, true]) {
  test(`a relay's calls have the same request id in both logs; clients are named: ${logClients}`, async () => {
    const logs: { api: Line[]; relay: Line[] } = { api: [], relay: [] }
    const logTo = (lines: Line[]) =>
      ({ write: (line: string) => void lines.push(JSON.parse(line) as Line), pretty: false, level: 'debug' }) as const
    const { cert, key, ca } = workspace
    const credential = randomBytes(32).toString('hex')
    const api = await startApi({
      database: join(workspace.directory(`api-${logClients}`), 'api.sqlite'),
      masterKey: randomBytes(32),
      host: 'localhost',
      port: 0,
      certificate: { cert, key },
      internal: { host: 'localhost', port: 0, credentials: [credential] },
      settings: QUICK,
      logClients,
      log: logTo(logs.api),
    })
    const relay = await startRelay({
      name: 'localhost',
      database: join(workspace.directory(`relay-${logClients}`), 'relay.sqlite'),
      host: 'localhost',
      grpcPort: 0,
      quicPort: 0,
      quicEndpoints: 1,
      certificate: { cert, key },
      api: { urls: [api.url], internalUrls: [api.internalUrl ?? ''], credential, ca },
      logClients,
      log: logTo(logs.relay),
    })
    const client = makeClient(api.url, ca)
    const { id, api_key: first } = await signUp(client)
    const way = { by: 'grpc', port: relay.grpcPort, ca } as const
    const owner = await connectAgent(way, await tokenOf(client, first.key))
    const member = await connectAgent(way, await tokenOf(client, first.key))
    const channel = await openChannel(owner, member, 'acme/test/logs')
    await owner.send(channel, 1n, 1n)
    await hangUp(owner, member)
    client.close()
    await relay.close()
    await api.close()

    const refused = logs.api.filter(({ status = 200 }) => status >= 400)
    assert.deepEqual(refused, [], 'the relay makes no request that the API refuses')
    const leases = logs.api.filter(({ route }) => route === '/internal/v1/quota/leases')
    assert.ok(leases.length > 0)
    for (const { request_id } of leases) {
      const [call] = logs.relay.filter((line) => line.request_id === request_id)
      assert.equal(call?.path, '/internal/v1/quota/leases')
    }
    assert.deepEqual(
      logs.api.filter(({ msg }) => msg.startsWith('API st')).map(({ msg }) => msg),
      ['API stopping', 'API stopped'],
    )
    const exchange = logs.api.find(({ route }) => route === '/v1/tokens')
    const everything = JSON.stringify(logs)
    if (logClients) {
      assert.equal(exchange?.account, id)
      assert.match(exchange?.address ?? '', /^(127\.0\.0\.1|::1)$/)
    } else {
      assert.deepEqual([exchange?.account, exchange?.address], [undefined, undefined])
      assert.ok(!everything.includes('127.0.0.1"') && !everything.includes('"::1"'))
    }
  })
}
