/** What a hostile member, a careless model and a broken host do to `static mcp`. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import type { StaticChannelManager } from '@static/sdk'
import { type Entry, entriesOf, newHost, ok, oldHost, Place, type Received, refusal } from './support.ts'
import { HOSTILE_TEXTS } from './texts.ts'

const place = await Place.open()
const children: ChildProcess[] = []
const owner: StaticChannelManager = await place.agent('owner')
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await owner.close()
  await place[Symbol.asyncDispose]()
})
const ROUTING = 'acme/support/routing'
await place.channel(owner, ROUTING, 'ann', 'bob')

/** A server whose stdin and stdout the test reads and writes itself. */
function raw(identity: string): { readonly child: ChildProcess; readonly say: (message: object) => void } {
  const { command, args, env } = place.command(identity, 'mcp')
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'ignore'] })
  children.push(child)
  child.stdin.on('error', () => {})
  return { child, say: (message) => void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`) }
}

const HANDSHAKE = [
  {
    id: 'first',
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
  },
  { method: 'notifications/initialized' },
]

test('fifty texts that imitate something else change nothing outside their field', async () => {
  assert.equal(HOSTILE_TEXTS.length, 50)
  const bob = await newHost(place.command('bob', 'mcp'))
  for (const text of HOSTILE_TEXTS) await owner.send(ROUTING, text)
  const answers: Received[] = []
  const entries: Entry[] = []
  while (entries.length < HOSTILE_TEXTS.length) {
    const { content, structuredContent } = await bob.call('receive')
    const answer = structuredContent as Received
    // One text block, whose JSON is the same; nothing in it acts on a terminal or is invisible.
    assert.equal(content.length, 1)
    const shown = content[0]?.text ?? ''
    assert.deepEqual(JSON.parse(shown), answer)
    assert.doesNotMatch(shown, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
    answers.push(answer)
    entries.push(...entriesOf(answer))
  }
  assert.deepEqual(
    entries.map(({ text }) => text),
    HOSTILE_TEXTS,
  )
  for (const { senders, channels, more, ...rest } of answers) {
    assert.deepEqual([rest, more], [{}, false])
    assert.deepEqual(
      senders.map((sender) => [sender.sender, sender.identity, sender.agent_id, sender.fingerprint]),
      [[1, 'owner', owner.client.agentId, owner.client.fingerprint()]],
    )
    assert.deepEqual(
      channels.map(({ channel }) => channel),
      [ROUTING],
    )
  }
  for (const { index, id, time, text, ...rest } of entries) {
    assert.deepEqual(rest, { redelivered: false, sender: 1 }, text ?? '')
    assert.match(`${index} ${id} ${time}`, /^\d+ [\da-f]{32} \d{4}-\d\d-\d\dT[\d:]+Z$/)
  }
  await bob.close()
})

test('bad input is a tool error with a code and a sentence', async () => {
  const ann = await oldHost(place.command('ann', 'mcp', '--manage'))
  const cases: readonly [tool: string, args: Record<string, unknown>, code: string, words: RegExp][] = [
    ['send', {}, 'invalid_request', /`channel` is required/],
    ['send', { channel: 7, text: 'x' }, 'invalid_request', /`channel` is 7. It must be a string/],
    ['send', { channel: ROUTING, text: ['x'] }, 'invalid_request', /`text` is \["x"\]/],
    ['send', { channel: ROUTING, text: 'x', to: 'bob' }, 'invalid_request', /"to" is not an argument/],
    ['send', { channel: ROUTING, text: '' }, 'invalid_request', /empty/],
    ['send', { channel: ROUTING, text: '\uD800' }, 'invalid_request', /lone surrogate/],
    ['send', { channel: 'a b', text: 'x' }, 'channel_error', /"a b"/],
    ['send', { channel: 'acme/no/where', text: 'x' }, 'not_found', /not a member of channel acme\/no\/where/],
    ['send', { channel: ROUTING, text: 'x'.repeat(300 * 1024) }, 'too_large', /307200 bytes; the limit is 262144/],
    ['receive', { channel: 'acme/no/where' }, 'not_found', /not a member/],
    ['receive', { wait: 51 }, 'invalid_request', /integer from 1 to 50/],
    ['receive', { wait: 0 }, 'invalid_request', /integer from 1 to 50/],
    ['members', { channel: 'acme/no/where' }, 'not_found', /not a member/],
    ['verify', { channel: '../../etc' }, 'channel_error', /must be a name/],
    ['join', { invite: 'nonsense' }, 'invalid_request', /`channel` is required with a token/],
    ['join', { invite: 'nonsense', channel: 'acme/no/where' }, 'invite_invalid', /./],
    ['invite', { channel: ROUTING }, 'not_allowed', /./],
    [
      'invite',
      { channel: ROUTING, admit: 'anyone' },
      'invalid_request',
      /`admit` is "anyone". It must be owner or members/,
    ],
    ['ask', { channel: ROUTING }, 'invalid_request', /`text` is required/],
    ['ask', { channel: ROUTING, text: '' }, 'invalid_request', /empty/],
    ['ask', { channel: ROUTING, text: 'x', to: '' }, 'invalid_request', /`to` is empty/],
    ['ask', { channel: ROUTING, text: 'x', to: 'nobody' }, 'not_found', /has no member "nobody"/],
    ['ask', { channel: ROUTING, text: 'x', to: 'ann' }, 'invalid_request', /`to` is this agent/],
    ['ask', { channel: ROUTING, text: 'x', expires: 0 }, 'invalid_request', /integer from 1 to 604800/],
    ['ask', { channel: ROUTING, text: 'x'.repeat(262_081) }, 'too_large', /262081 bytes; the limit is 262080/],
    ['ask', { channel: ROUTING, request: 'x', text: 'x' }, 'invalid_request', /`text` cannot be used with `request`/],
    ['ask', { channel: ROUTING, request: 'nonsense' }, 'not_found', /Request nonsense is not open/],
    ['ask', { channel: 'acme/no/where', text: 'x' }, 'not_found', /not a member of channel/],
    ['answer', { channel: ROUTING, text: 'x' }, 'invalid_request', /`request` is required/],
    ['answer', { channel: ROUTING, request: 7, text: 'x' }, 'invalid_request', /`request` is 7/],
    ['answer', { channel: ROUTING, request: 'nonsense', text: 'x' }, 'not_found', /"nonsense" is not open/],
    ['channels', { constructor: 1 }, 'invalid_request', /"constructor" is not an argument/],
  ]
  for (const [tool, args, code, words] of cases) {
    const error = await refusal(ann, tool, args)
    assert.equal(error.code, code, `${tool} ${JSON.stringify(args).slice(0, 80)}: ${error.message}`)
    assert.match(error.message, words)
  }
  await assert.rejects(ann.call('shell'), /Unknown tool/)
  // A token can be used once.
  await owner.create('acme/support/once')
  const token = await owner.invite('acme/support/once')
  const joined = await ok<{ channel: string; members: number }>(ann, 'join', {
    invite: token,
    channel: 'acme/support/once',
  })
  assert.deepEqual([joined.channel, joined.members], ['acme/support/once', 2])
  await ok(ann, 'leave', { channel: 'acme/support/once' })
  const { code } = await refusal(ann, 'join', { invite: token, channel: 'acme/support/once' })
  assert.equal(code, 'invite_used_up')
  const made = await ok<{ channel: string }>(ann, 'create', { channel: 'acme/support/made' })
  assert.equal(made.channel, 'acme/support/made')
  // The second byte says whether members may admit.
  for (const [admit, flags] of [
    [undefined, 0],
    ['owner', 0],
    ['members', 1],
  ] as const) {
    const args: Record<string, unknown> = { channel: made.channel, uses: 2, ...(admit && { admit }) }
    const { token: text } = await ok<{ token: string }>(ann, 'invite', args)
    assert.match(text, /^st_inv_/)
    assert.equal(Buffer.from(text.slice('st_inv_'.length), 'base64url')[1], flags)
  }
  await ann.close()
})

test('an agent that cannot be opened is told in the handshake, with a code and a sentence', async () => {
  for (const connect of [newHost, oldHost]) {
    await assert.rejects(connect(place.command('nobody', 'mcp')), ({ message, data }: Error & { data?: object }) => {
      assert.match(message, /There is no agent in .*nobody\. .*Create it with `static agent create/)
      assert.partialDeepStrictEqual(data, { code: 'not_found' })
      return true
    })
  }
  assert.equal(existsSync(place.directory('nobody')), false)
})

test('a thousand calls at once are answered, with JSON-RPC only on stdout, and the end of stdin ends it', async () => {
  const { child, say } = raw('bob')
  for (const message of HANDSHAKE) say(message)
  child.stdin!.write('nonsense\n{"jsonrpc":"2.0"}\n')
  const call = (id: number): object => {
    const [name, args] = (
      [
        ['receive', { wait: 1 }],
        ['send', { channel: ROUTING, text: `number ${id}` }],
        ['channels', {}],
        ['shell', {}],
        ['members', { channel: ROUTING }],
      ] as const
    )[id % 5] ?? ['', {}]
    return { id, method: 'tools/call', params: { name, arguments: args } }
  }
  const ids = Array.from({ length: 1000 }, (_, id) => id)
  for (const id of ids) say(call(id))
  const answered = new Set<unknown>()
  const codes = new Set<string>()
  for await (const line of createInterface({ input: child.stdout! })) {
    const { jsonrpc, id, result } = JSON.parse(line)
    assert.equal(jsonrpc, '2.0')
    answered.add(id)
    if (result?.isError) codes.add(JSON.parse(result.content[0].text).error.code)
    if (answered.size === ids.length + 1) break
  }
  // More calls of `receive` than can wait are refused.
  assert.deepEqual([...codes], ['rate_limited'])
  const ended = once(child, 'exit')
  child.stdin!.end()
  assert.deepEqual(await ended, [0, null])
})

test('a host that never reads does not keep the server alive', async () => {
  const { child, say } = raw('bob')
  for (const message of HANDSHAKE) say(message)
  await once(child.stdout!, 'readable')
  for (let id = 0; id < 2000; id++) say({ id, method: 'tools/list' })
  const ended = once(child, 'exit')
  child.stdin!.end()
  assert.deepEqual(await ended, [0, null])
})

test('a host that closes stderr is served, and one that sends an endless line is not', async () => {
  const { command, args, env } = place.command('bob', 'mcp')
  const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  children.push(child)
  child.stdin.on('error', () => {})
  child.stderr.destroy()
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  for (const message of HANDSHAKE) child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  await lines.next()
  // Each line that is no request is a note on stderr.
  for (let id = 1; id <= 3; id++) {
    child.stdin.write(`{"jsonrpc":"2.0"}\n${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list' })}\n`)
    assert.equal(JSON.parse((await lines.next()).value ?? '').id, id)
  }
  const ended = once(child, 'exit')
  // Stdin stays open.
  child.stdin.write('x'.repeat(11 * 1024 * 1024))
  assert.deepEqual(await ended, [0, null])
})

test('an answer that the host has dropped is delivered again', async () => {
  const { child, say } = raw('ann')
  for (const message of HANDSHAKE) say(message)
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
  const answerTo = async (wanted: unknown): Promise<readonly Entry[]> => {
    for (;;) {
      const { id, result } = JSON.parse((await lines.next()).value ?? '')
      if (id === wanted) return entriesOf(result.structuredContent)
    }
  }
  const receive = (id: number): void => say({ id, method: 'tools/call', params: { name: 'receive', arguments: {} } })
  // What the tests before have sent to everyone.
  let left = true
  for (let id = 100; left; id++) {
    say({ id, method: 'tools/call', params: { name: 'receive', arguments: { wait: 1 } } })
    left = (await answerTo(id)).length > 0
  }
  await owner.send(ROUTING, 'do not lose me')
  receive(1)
  const [first] = await answerTo(1)
  assert.deepEqual([first?.text, first?.redelivered], ['do not lose me', false])
  // As hosts do when their time is over, here just too late.
  say({ method: 'notifications/cancelled', params: { requestId: 1 } })
  receive(2)
  const [again] = await answerTo(2)
  assert.deepEqual({ ...again, redelivered: false }, first)
  assert.equal(again?.redelivered, true)
  // Cancelled while it waits: what comes afterwards goes to the next call, for the first time.
  receive(3)
  say({ method: 'notifications/cancelled', params: { requestId: 3 } })
  await owner.send(ROUTING, 'later')
  receive(4)
  const [later] = await answerTo(4)
  assert.deepEqual([later?.text, later?.redelivered], ['later', false])
  child.kill('SIGKILL')
})
