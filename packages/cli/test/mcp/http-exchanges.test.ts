/** The sessions of `static mcp --http`: how many there are, and which of them ends for another one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Server } from '@modelcontextprotocol/server'
import { HttpExchanges } from '../../src/mcp/http-exchanges.ts'

const MOST = 32
const CLIENT = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } }

/** A host: it sends requests that last until it has read the answer. */
class Host {
  readonly #exchanges: HttpExchanges
  session = ''

  constructor(exchanges: HttpExchanges) {
    this.#exchanges = exchanges
  }

  /** The status of a request, and how it ends. */
  async send(method: string, params: object): Promise<{ readonly status: number; readonly end: () => void }> {
    const gone = new AbortController()
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(this.session !== '' && { 'mcp-session-id': this.session }),
    }
    const request = new Request('http://127.0.0.1/mcp', { method: 'POST', headers, signal: gone.signal })
    const exchange = await this.#exchanges.begin(request, { jsonrpc: '2.0', id: 1, method, params })
    const response = await exchange.answer()
    this.session ||= response.headers.get('mcp-session-id') ?? ''
    return { status: response.status, end: () => gone.abort() }
  }

  async open(): Promise<{ readonly status: number; readonly end: () => void }> {
    return await this.send('initialize', CLIENT)
  }

  async status(): Promise<number> {
    const { status, end } = await this.send('ping', {})
    end()
    return status
  }
}

test('hosts that begin at the same time get no more sessions than the limit', async (t) => {
  const exchanges = new HttpExchanges(() => new Server({ name: 'test', version: '1' }, { capabilities: {} }))
  t.after(() => exchanges.close())
  const hosts = Array.from({ length: MOST + 8 }, () => new Host(exchanges))
  const begun = await Promise.all(hosts.map((host) => host.open()))
  const opened = begun.filter(({ status }) => status === 200)
  assert.deepEqual(
    [opened.length, begun.filter(({ status }) => status === 503).length],
    [MOST, 8],
    'those that opened are still reading their answers',
  )

  for (const { end } of begun) end()
  const [first, second, ...others] = hosts.filter(({ session }) => session !== '')
  assert.ok(first && second)
  assert.equal(await first.status(), 200)
  const late = new Host(exchanges)
  assert.equal((await late.open()).status, 200)
  assert.equal(await second.status(), 404, 'used least recently')
  for (const host of [first, ...others, late]) assert.equal(await host.status(), 200)
})

test('a host that could not begin takes no place, and neither does one that has its answer', async (t) => {
  const exchanges = new HttpExchanges(() => new Server({ name: 'test', version: '1' }, { capabilities: {} }))
  t.after(() => exchanges.close())
  for (let n = 0; n < MOST + 1; n++) {
    const { status } = await new Host(exchanges).send('initialize', { protocolVersion: 7 })
    assert.equal(status, 400)
  }
  const hosts = Array.from({ length: MOST }, () => new Host(exchanges))
  for (const host of hosts) (await host.open()).end()
  for (const host of hosts) assert.equal(await host.status(), 200)
})
