import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Server, startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { launchBrowser } from '../support/browser.ts'

const pages = createServer((_request, response) =>
  response.setHeader('content-type', 'text/html').end('<title>app</title>'),
)
const workspace = await makeWorkspace()
let browser: Browser
let server: Server
let port: number

before(async () => {
  pages.listen(0, '127.0.0.1')
  await once(pages, 'listening')
  ;({ port } = pages.address() as AddressInfo)
  const relay = { origins: [`http://localhost:${port}`] }
  server = await startServer({ workspace, dataDir: workspace.directory('up'), command: 'up', settings: QUICK, relay })
  browser = await launchBrowser()
})
after(async () => {
  await browser.close()
  await server[Symbol.asyncDispose]()
  pages.close()
  workspace[Symbol.dispose]()
})

async function open(host: string): Promise<Page> {
  // The authority of the tests is in no browser.
  const context = await browser.newContext({ ignoreHTTPSErrors: true })
  const page = await context.newPage()
  await page.goto(`http://${host}:${port}/`)
  return page
}

/** Runs in the page. */
async function visit(url: string): Promise<unknown> {
  const health = await fetch(`${url}/health`)
  const post = (method: string): Promise<Response> =>
    fetch(`${url}/static.relay.v1.Relay/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'static-session': 'no token' },
      body: method === 'GetChallenge' ? '{"revision":2}' : '{}',
    })
  const challenge = await post('GetChallenge')
  const refused = await post('Ack')
  return {
    health: [health.status, await health.json()],
    challenge: [challenge.status, await challenge.json()],
    refused: [refused.status, ((await refused.json()) as { code: string }).code],
    details: refused.headers.get('static-error-bin') !== null,
  }
}

test('a page of a configured origin reads /health and calls the relay', async () => {
  const page = await open('localhost')
  const seen = (await page.evaluate(visit, `https://localhost:${server.relay.grpcPort}`)) as Record<string, any>
  const [healthStatus, { status: health, name }] = seen['health']
  assert.deepEqual([healthStatus, health, name], [200, 'ok', 'localhost'])
  const [status, { nonce, relayName, revision }] = seen['challenge']
  assert.deepEqual([status, relayName, revision], [200, 'localhost', 2])
  assert.equal(Buffer.from(nonce, 'base64').length, 32)
  assert.deepEqual(seen['refused'], [401, 'unauthenticated'])
  assert.equal(seen['details'], true)
})

test('a page of another origin reads nothing', async () => {
  const page = await open('127.0.0.1')
  await assert.rejects(page.evaluate(visit, `https://localhost:${server.relay.grpcPort}`), /Failed to fetch/)
})
