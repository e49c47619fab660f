/** What the relay notices about its API, over real TLS. */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { HYBRID_GROUP } from '@static/node/tls-groups'
import { certificates } from '@static/testkit/certificates'
import { makeApiClient } from '../src/api/client.ts'
import { ApiMonitor } from '../src/api/monitor.ts'

const NOW = Date.UTC(2027, 0, 15, 12)

interface Bench {
  readonly monitor: ApiMonitor
  readonly lines: string[]
  /** How the API answers. */
  status: number
  readonly dates: (string | undefined)[]
  close(): Promise<void>
}

/** An API whose clock says `NOW`, and a relay whose clock is off. */
async function start(t: TestContext, options: { ca?: string | undefined; relayAheadMs?: number } = {}): Promise<Bench> {
  const { authority, certificate } = await certificates()
  const bench = { status: 200, dates: [] as (string | undefined)[], lines: [] as string[] }
  // Lets in only clients that offer the hybrid: a recording of their calls stays closed.
  const server: Server = createServer({ ...certificate, ecdhCurve: HYBRID_GROUP }, (request, response) => {
    bench.dates.push(request.headers.date)
    request.resume()
    response.sendDate = false
    response.writeHead(bench.status, { date: new Date(NOW).toUTCString() })
    response.end(
      JSON.stringify(bench.status === 200 ? { suspended: [], unknown: [], keys: [] } : { code: 'auth_key_invalid' }),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  const ca = 'ca' in options ? options.ca : authority.cert
  const now = (): number => NOW + 500 + (options.relayAheadMs ?? 0)
  const client = makeApiClient({ urls: [url], internalUrls: [url], credential: 'c', ca }, now)
  const log = (level: string) => (_detail: object, message: string) => void bench.lines.push(`${level} ${message}`)
  const close = async (): Promise<void> => {
    if (!server.listening) return
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  t.after(async () => {
    client.close()
    await close()
  })
  return Object.assign(bench, { monitor: new ApiMonitor(client, { warn: log('warn'), info: log('info') }), close })
}

test('an API that answers is usable; the relay sends its own time along', async (t) => {
  const bench = await start(t)
  assert.notEqual(bench.monitor.state.problem, undefined, 'not before it was asked')
  await bench.monitor.probe()
  assert.deepEqual(bench.monitor.state, { problem: undefined, clockOffsetMs: 0 })
  assert.equal(bench.dates[0], new Date(NOW).toUTCString())
  await bench.monitor.probe()
  assert.deepEqual(bench.lines, ['info the API is usable'])
})

test('an unreachable API, one that rejects the credential and one with an unknown certificate are told apart', async (t) => {
  const bench = await start(t)
  await bench.monitor.probe()
  bench.status = 401
  await bench.monitor.probe()
  assert.match(bench.monitor.state.problem ?? '', /rejected the relay credential/)
  await bench.close()
  await bench.monitor.probe()
  assert.equal(bench.monitor.state.problem, 'The API cannot be reached.')
  assert.deepEqual(bench.lines, [
    'info the API is usable',
    'warn the relay cannot use its API and is not ready',
    'warn the relay cannot use its API and is not ready',
  ])
  const strange = await start(t, { ca: undefined })
  await strange.monitor.probe()
  assert.match(
    strange.monitor.state.problem ?? '',
    /certificate of the API is not trusted \(\w+\)\. Pass its CA with --api-ca\./,
  )
})

test('a clock difference of seconds is logged; at minutes the relay is not ready', async (t) => {
  const near = await start(t, { relayAheadMs: 7000 })
  await near.monitor.probe()
  await near.monitor.probe()
  assert.deepEqual(near.monitor.state, { problem: undefined, clockOffsetMs: -7000 })
  const [line, ...rest] = near.lines
  assert.match(line ?? '', /^warn The clock of this relay is 7 s ahead of the API's\. Set it/)
  assert.deepEqual(rest, ['info the API is usable'])
  const far = await start(t, { relayAheadMs: -301_000 })
  await far.monitor.probe()
  assert.match(far.monitor.state.problem ?? '', /^The clock of this relay is 301 s behind the API's\./)
})
