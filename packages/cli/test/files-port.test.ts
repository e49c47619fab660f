/** What `static doctor` says about the port of files. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { certificates } from '@static/testkit/certificates'
import { quietPort } from '@static/testkit/ports'
import { checkFilesPort } from '../src/doctor/files-port.ts'
import { ok } from '../src/doctor/finding.ts'

/** A server that gives this answer, and its port. */
async function serve(t: TestContext, status: number, type: string, body: () => string): Promise<number> {
  const { named } = await certificates()
  const server = createServer({ ...named }, (_request, response) => {
    response.writeHead(status, { 'content-type': type }).end(body())
  }).listen(0, 'localhost')
  await once(server, 'listening')
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

test('the port of files is reached where the relay says, and a blocked one is one sentence', async (t) => {
  const { authority } = await certificates()
  let health: object = {}
  const relay = await serve(t, 200, 'application/json', () => JSON.stringify({ status: 'ok', ...health }))
  const files = await serve(t, 404, 'application/problem+json', () => '{}')
  const wall = await serve(t, 404, 'text/html', () => 'a captive portal')
  const closed = await quietPort()
  const check = async (named: object, isUp = true): Promise<readonly unknown[][]> => {
    health = named
    const nodes = [{ finding: isUp ? ok('relay', '') : { ...ok('relay', ''), ok: false }, grpcPort: relay }]
    const found = await checkFilesPort(`quic://localhost:${relay}`, { ca: authority.cert }, nodes)
    return found.map((finding) => [finding.check, finding.ok, finding.detail])
  }
  const right = [['files', true, `port ${files} (TCP) of localhost responds`]]
  assert.deepEqual(await check({ files_port: files }), right)
  assert.deepEqual(await check({ files_port: closed, files_url: `https://localhost:${files}` }), right)
  assert.deepEqual(await check({}), [['files', null, 'not checked: the relay takes no files']])
  const advice =
    'Allow it in firewalls, or let the operator name another address with --files-url. Messages work without it.'
  assert.deepEqual(await check({ files_port: closed }), [
    ['files', false, `Files are blocked: cannot reach port ${closed} (TCP) of localhost (ECONNREFUSED). ${advice}`],
  ])
  assert.deepEqual(await check({ files_port: wall }), [
    [
      'files',
      false,
      `Something else than the relay answers at port ${wall} (TCP) of localhost, where it takes files. ${advice}`,
    ],
  ])
  // The check of the relay says why.
  assert.deepEqual(await check({ files_port: files }, false), [])
})
