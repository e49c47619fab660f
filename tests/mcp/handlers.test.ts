/** `listen --exec` and `listen --webhook`: a program for each message. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { shows } from '../cli/support.ts'
import { Place } from './support.ts'

const place = await Place.open()
const children: ChildProcess[] = []
const owner = await place.agent('owner')
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await owner.close()
  await place[Symbol.asyncDispose]()
})
const ORDERS = 'acme/shop/orders'
await place.channel(owner, ORDERS, 'worker')

function start(env: Record<string, string>, ...flags: readonly string[]): ChildProcess {
  return startCommand(env, 'listen', ...flags)
}

function startCommand(env: Record<string, string>, name: string, ...flags: readonly string[]): ChildProcess {
  const { command, args, env: own } = place.command('worker', 'channel', name, ORDERS, ...flags)
  const child = spawn(command, args, { env: { ...own, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  children.push(child)
  return child
}

/** Runs a command that fails at once; returns its exit code and what it says. */
async function fails(env: Record<string, string>, ...flags: readonly string[]): Promise<[number | null, string]> {
  const child = start(env, ...flags)
  const [said, [code]] = await Promise.all([text(child.stderr!), once(child, 'exit') as Promise<[number | null]>])
  return [code, said]
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [143, null])
}

test('a command gets the payload on stdin and the rest in its environment, and can answer', async () => {
  const script = place.workspace.file(
    'answer.sh',
    'read -r order\nprintf "%s|" "$order" "$STATIC_CHANNEL" "$STATIC_SENDER_IDENTITY" "$STATIC_SENDER_AGENT_ID" "$STATIC_REDELIVERED" "$STATIC_MESSAGE_INDEX"\necho\n',
  )
  const { command, args } = place.command('worker')
  const running = start(
    { STATIC: command, MAIN: args[0] ?? '' },
    '--exec',
    `sh '${script}'; printf done | "$STATIC" "$MAIN" channel send "$STATIC_CHANNEL"`,
  )
  const seen = shows(running.stdout!, `order 1|${ORDERS}|owner|${owner.client.agentId}|false|`)
  const { index } = await owner.send(ORDERS, 'order 1\n')
  await seen
  assert.ok(index > 0)
  const answer = await owner.receive(ORDERS, 60)
  assert.equal(Buffer.from(answer ?? []).toString(), 'done')
  // Others cannot read the messages of this agent meanwhile.
  const [code, said] = await fails({}, '--count', '1')
  assert.equal(code, 1)
  assert.match(
    said,
    new RegExp(`\`static channel listen\` \\(process ${running.pid}\\) reads the messages of this agent`),
  )
  await end(running)
})

test('a command answers requests with what it prints, and another one asks', async () => {
  const serving = startCommand(
    {},
    'serve',
    '--exec',
    'read -r word; test "$word" != bad && echo "$word, $STATIC_SENDER_IDENTITY"',
  )
  await shows(serving.stderr!, 'answering requests in')
  const channel = owner.client.channel(ORDERS)
  const to = channel.members().find(({ agentId }) => agentId !== owner.client.agentId)!.agentId
  const [answer] = await Array.fromAsync(channel.ask('hello\n', { to }))
  assert.equal(answer?.text(), 'hello, owner\n')
  const [bad] = await Array.fromAsync(channel.ask('bad\n', { to }))
  assert.equal(bad?.error?.details.answer?.code, 'internal_error')

  // The same agent asks meanwhile, through the process that serves.
  const stop = new AbortController()
  const served = channel.serve(async (request) => `you said ${request.text()}`, { signal: stop.signal })
  const asking = startCommand({}, 'ask', 'hi', '--to', 'owner')
  assert.equal(await text(asking.stdout!), 'you said hi\n')
  stop.abort()
  await served
  const late = startCommand({}, 'ask', 'hi', '--to', 'owner', '--timeout', '0.1', '--json')
  const [said, [code]] = await Promise.all([text(late.stderr!), once(late, 'exit') as Promise<[number | null]>])
  assert.equal(code, 1)
  assert.match(said, /did not answer in time/)
  await end(serving)
})

test('a message is settled by exit code 0 only, tried again, and put aside after the last attempt', async () => {
  const seen = join(place.workspace.path, 'attempts')
  writeFileSync(seen, '')
  // Fails on the first attempt at the first message, and always on the second message.
  const line = `read -r order; echo "$order $STATIC_REDELIVERED" >> '${seen}'; test "$order" != bad && test "$(grep -c "^$order" '${seen}')" != 1`
  await owner.send(ORDERS, 'flaky\n')
  const { messageId } = await owner.send(ORDERS, 'bad\n')
  const child = start({}, '--exec', line, '--attempts', '2')
  await shows(child.stderr!, `message ${messageId} failed 2 times and was put aside: The command exited with 1.`)
  await end(child)
  // The order of the first test may come again, if it was not settled in time, and be put aside before these.
  const lines = readFileSync(seen, 'utf8').split('\n')
  assert.deepEqual(
    lines.filter((word) => /^(flaky|bad) /.test(word)),
    ['flaky false', 'flaky true', 'bad false', 'bad true'],
  )
})

test('a webhook gets a signed request, with the payload only if asked for', async () => {
  const calls: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = []
  const ordered = new EventEmitter()
  const statuses = [500, 302]
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      calls.push({ headers: request.headers, body })
      const status = statuses.shift() ?? 204
      response.writeHead(status, { location: 'http://localhost:1/' })
      // A long answer is not read.
      response.end(status === 204 ? undefined : 'x'.repeat(1_000_000))
      ordered.emit('call')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  const secret = 'a secret of enough characters'
  const child = start({ STATIC_WEBHOOK_SECRET: secret }, '--webhook', url)
  await owner.send(ORDERS, 'order 2')
  // Refused, then redirected, which is not followed, then accepted.
  while (calls.length < 3) await once(ordered, 'call')
  await end(child)
  for (const { headers, body } of calls) {
    const [, time = '', signature] = /^t=(\d+),v1=([\da-f]{64})$/.exec(String(headers['static-signature'])) ?? []
    assert.equal(signature, createHmac('sha256', secret).update(`${time}.${body}`).digest('hex'))
  }
  const bodies = calls.map(({ body }) => JSON.parse(body))
  assert.deepEqual(
    bodies.map(({ channel, sender, payload }) => [channel, sender.identity, payload]),
    bodies.map(() => [ORDERS, 'owner', undefined]),
  )
  assert.deepEqual(
    bodies.slice(0, 2).map(({ redelivered }) => redelivered),
    [bodies[0].redelivered, true],
  )
  const again = start({ STATIC_WEBHOOK_SECRET: secret }, '--webhook', url, '--webhook-payload')
  await owner.send(ORDERS, 'order 3')
  const last = (): string => Buffer.from(JSON.parse(calls.at(-1)?.body ?? '').payload ?? '', 'base64').toString()
  while (last() !== 'order 3') await once(ordered, 'call')
  await end(again)
  server.close()
})

test('wrong flags are refused before anything is handled', async () => {
  const secret = { STATIC_WEBHOOK_SECRET: 'a secret of enough characters' }
  const cases: readonly [Record<string, string>, readonly string[], number, RegExp][] = [
    [secret, ['--webhook', 'http://example.com/hook'], 1, /must be an https:\/\/ URL, or http:\/\/ to this machine/],
    [secret, ['--webhook', 'nonsense'], 1, /--webhook is "nonsense"/],
    [secret, ['--webhook', 'https://user:word@example.com/'], 1, /contains a user name or password/],
    [{}, ['--webhook', 'https://example.com/'], 1, /needs a secret/],
    [{ STATIC_WEBHOOK_SECRET: 'short' }, ['--webhook', 'https://example.com/'], 1, /has 5 characters/],
    [secret, ['--webhook', 'https://example.com/', '--exec', 'true'], 2, /cannot be used with/],
    [{}, ['--exec', ' '], 1, /--exec is empty/],
    [{}, ['--exec', 'true', '--count', '1'], 2, /cannot be used with/],
  ]
  const ended = await Promise.all(cases.map(([env, flags]) => fails(env, ...flags)))
  for (const [at, [code, said]] of ended.entries()) {
    assert.equal(code, cases[at]?.[2], said)
    assert.match(said, cases[at]?.[3] ?? /never/)
  }
})
