/** A webhook whose server does not behave. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import type { Message } from '../../src/agent/actions.ts'
import { parseWebhook, webhookHandler } from '../../src/handlers/webhook.ts'

const servers: Server[] = []
after(() => {
  for (const server of servers) server.closeAllConnections()
  for (const server of servers) server.close()
})

const sender = { agent_id: 'a', fingerprint: 'a', identity: '\u001B[31mann\u202E', name: 'ann' }
const fields = { index: 1, message_id: 'f', epoch: 1, time: 'now', redelivered: false }
const message: Message = { channel: 'acme/shop/orders', ...fields, sender, payload: 'eA==' }

/** Calls a server that answers like this. */
async function call(
  listener: RequestListener,
  timeoutMs = 60_000,
  signal = new AbortController().signal,
): Promise<void> {
  const server = createServer(listener)
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  await webhookHandler({ url, secret: 'x'.repeat(32), withPayload: false, timeoutMs }, signal)(message)
}

test('a wrong address is refused without telling its secrets', () => {
  for (const text of [
    'http://user:hunter2@example.com/hook',
    'ftp://user:hunter2@example.com/',
    'https://user:hunter2@example.com/',
    'https://user:hunter2@exa mple.com/',
    'http://example.com/hunter2?token=hunter2',
    'user:hunter2@example.com',
  ]) {
    assert.throws(
      () => parseWebhook(text),
      ({ code, message: words }: { readonly code: string; readonly message: string }) => {
        assert.equal(code, 'invalid_request')
        assert.doesNotMatch(words, /hunter2/)
        return true
      },
    )
  }
  for (const text of ['https://example.com/hook', 'http://127.0.0.1:8080/', 'http://[::1]/']) {
    assert.equal(parseWebhook(text).href, text)
  }
})

test('a server that never answers is given up', async () => {
  await assert.rejects(
    call(() => {}, 50),
    /The webhook did not answer: .*timeout/,
  )
})

test('the end of the program ends a call that waits', async () => {
  const stop = new AbortController()
  await assert.rejects(
    call(() => stop.abort(), 60_000, stop.signal),
    /The webhook did not answer/,
  )
})

test('an answer that never ends is not read', async () => {
  await call((_, response) => void response.writeHead(200).write('x'.repeat(65_536)))
})

test('an identity reaches the server in quotes and escaped, so that it is not taken for text', async () => {
  const body = Promise.withResolvers<string>()
  await call((request, response) => {
    void text(request).then((content) => {
      body.resolve(content)
      response.end()
    })
  })
  assert.equal(JSON.parse(await body.promise).sender.identity, '"\\u{1b}[31mann\\u{202e}"')
})

test('a redirect and an error are failures', async () => {
  for (const status of [301, 307, 404, 503]) {
    const answer: RequestListener = (_, response) => void response.writeHead(status, { location: '/' }).end()
    await assert.rejects(call(answer), new RegExp(`The webhook answered ${status}`))
  }
})
