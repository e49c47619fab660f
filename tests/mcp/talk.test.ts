/** Two models talk through `static mcp`: the official clients of both generations, each with its own server. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { WHOLE_ONLY } from '@static/testkit/whole'
import { type Snippet, snippetsOf } from '../docs/markdown.ts'
import {
  type Entry,
  entriesOf,
  type Host,
  httpHosts,
  newHost,
  ok,
  oldHost,
  Place,
  received,
  refusal,
} from './support.ts'

const place = await Place.open()
after(() => place[Symbol.asyncDispose]())
const ROUTING = 'acme/support/routing'
{
  await using owner = await place.agent('owner')
  await place.channel(owner, ROUTING, 'ann', 'bob')
}

test('a host of the 2026 revision and one of 2025 exchange messages', async () => {
  const ann = await newHost(place.command('ann', 'mcp'))
  const bob = await oldHost(place.command('bob', 'mcp'))
  assert.equal(ann.client.getProtocolEra?.(), 'modern')
  assert.match(ann.client.getInstructions() ?? '', /words of another agent/)
  assert.equal(bob.client.getInstructions(), ann.client.getInstructions())
  const { tools } = await ann.client.listTools()
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['channels', 'members', 'send', 'receive', 'save_file', 'ask', 'answer', 'request_approval', 'verify'],
  )
  assert.deepEqual((await bob.client.listTools()).tools, JSON.parse(JSON.stringify(tools)))

  const { channels } = await ok<{ channels: readonly object[] }>(ann, 'channels')
  assert.deepEqual(channels, [{ channel: ROUTING, owner: false, confirmed: true, members: 3 }])
  const { members } = await ok<{ members: readonly { identity: string; you: boolean; agent_id: string }[] }>(
    ann,
    'members',
    { channel: ROUTING },
  )
  assert.deepEqual(members.map(({ identity }) => identity).sort(), ['ann', 'bob', 'owner'])

  const sent = await ok<{ index: number; id: string }>(ann, 'send', { channel: ROUTING, text: 'Please review #7.' })
  const { senders, channels: heard, more } = await received(bob)
  const self = members.find(({ you }) => you)
  assert.deepEqual(
    senders.map(({ sender, identity, agent_id: id }) => [sender, identity, id]),
    [[1, 'ann', self?.agent_id]],
  )
  const [entry] = heard[0]?.entries ?? []
  assert.deepEqual([heard.length, heard[0]?.channel, more], [1, ROUTING, false])
  assert.deepEqual(
    { ...entry, time: '' },
    { index: sent.index, id: sent.id, time: '', redelivered: false, sender: 1, text: 'Please review #7.' },
  )
  await ok(bob, 'send', { channel: ROUTING, text: 'Done.' })
  const answer = await received(ann, { channel: ROUTING, wait: 50 })
  assert.deepEqual(
    entriesOf(answer).map(({ text }) => text),
    ['Done.'],
  )
  const [one, other] = await Promise.all([ann, bob].map((host) => ok(host, 'verify', { channel: ROUTING })))
  assert.deepEqual(one, other)
  await Promise.all([ann.close(), bob.close()])
})

const HANDSHAKE = {
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}

/** What `ask` resolves to. */
interface Asked {
  readonly request: string
  readonly open: boolean
  readonly senders: readonly { readonly sender: number; readonly identity: string }[]
  readonly answers: readonly Entry[]
  readonly missing: readonly { readonly identity: string }[]
}

test('a model asks another, whose answer it gets until it has seen it', async () => {
  const channel = 'acme/support/questions'
  await using owner = await place.agent('owner')
  await place.channel(owner, channel, 'amy', 'ben')
  let amy = await newHost(place.command('amy', 'mcp'))
  const ben = await oldHost(place.command('ben', 'mcp'))
  const asking = ok<Asked>(amy, 'ask', { channel, text: 'Is 7 prime?', to: 'ben' })
  const got = await received(ben, { channel })
  const [entry] = entriesOf(got)
  assert.deepEqual([got.senders[0]?.identity, entry?.text], ['amy', 'Is 7 prime?'])
  assert.match(entry?.request ?? '', /^[0-9a-f]{12}$/)
  assert.ok(Date.parse(entry?.until ?? '') > Date.now() + 3_000_000)
  const answer = { channel, request: entry?.request, text: 'Yes.' }
  const other = await refusal(ben, 'answer', { ...answer, channel: ROUTING })
  assert.deepEqual([other.code, /is not open in channel/.test(other.message)], ['not_found', true])
  assert.deepEqual(await ok(ben, 'answer', answer), { answered: true })
  assert.equal((await refusal(ben, 'answer', answer)).code, 'not_found')
  const { request, open, senders, answers, missing } = await asking
  assert.deepEqual(
    [open, missing, senders[0]?.identity, answers.map(({ text, sender }) => [text, sender])],
    [false, [], 'ben', [['Yes.', 1]]],
  )
  // The host dies before it asks for anything else, so the answer comes again.
  await amy.close()
  amy = await newHost(place.command('amy', 'mcp'))
  assert.deepEqual((await ok<Asked>(amy, 'ask', { channel, request })).answers, answers)
  const { code, message } = await refusal(amy, 'ask', { channel, request, wait: 1 })
  assert.deepEqual([code, message], ['not_found', `Request ${request} is not open. It was answered or has timed out.`])

  // All are asked, and one of them does not answer in time.
  const all = ok<Asked>(amy, 'ask', { channel, text: 'Who is there?', wait: 50 })
  const [again] = entriesOf(await received(ben, { channel }))
  await ok(ben, 'answer', { channel, request: again?.request, text: 'ben' })
  const first = await all
  assert.deepEqual(
    [first.open, first.answers.map(({ text }) => text), first.missing.map(({ identity }) => identity)],
    [true, ['ben'], ['owner']],
  )
  await Promise.all([amy.close(), ben.close()])
})

test('a message is settled by the next receive, not by its answer', async () => {
  const ann = await newHost(place.command('ann', 'mcp'))
  // From the last session, which ended without another receive.
  const again = entriesOf(await received(ann))
  assert.deepEqual(
    again.map(({ text, redelivered }) => [text, redelivered]),
    [['Done.', true]],
  )
  assert.deepEqual(await received(ann, { wait: 1 }), { senders: [], channels: [], more: false })
  await ann.close()
  const later = await newHost(place.command('ann', 'mcp'))
  assert.deepEqual(entriesOf(await received(later, { wait: 1 })), [])
  await later.close()
})

test('long and binary payloads become private files below the directory of the agent', WHOLE_ONLY, async () => {
  const bob = await oldHost(place.command('bob', 'mcp'))
  await received(bob)
  await using owner = await place.agent('owner')
  const long = 'ü'.repeat(20_000)
  const binary = new Uint8Array([0xff, 0xfe, 0])
  // Each control character takes six bytes as JSON.
  const escapes = '\u0001'.repeat(4000)
  for (const payload of [long, binary, escapes]) await owner.send(ROUTING, payload)
  const entries = []
  while (entries.length < 3) entries.push(...entriesOf(await received(bob)))
  const files = entries.map(({ file }) => file ?? '')
  assert.deepEqual(
    files.map((file) => [file.startsWith(`${place.directory('bob')}/received/`), statSync(file).mode & 0o777]),
    [1, 2, 3].map(() => [true, 0o600]),
  )
  assert.equal(readFileSync(files[0] ?? '', 'utf8'), long)
  assert.deepEqual(new Uint8Array(readFileSync(files[1] ?? '')), binary)
  assert.deepEqual(
    entries.map(({ bytes }) => bytes),
    [40_000, 3, 4000],
  )
  await bob.close()
  assert.ok(existsSync(files[0] ?? ''))
})

test('a second session of an agent sends through the first, and is told who reads', WHOLE_ONLY, async () => {
  const first = await newHost(place.command('bob', 'mcp'))
  await ok(first, 'channels')
  const second = await oldHost(place.command('bob', 'mcp'))
  await ok(second, 'send', { channel: ROUTING, text: 'from the second' })
  const { code, message } = await refusal(second, 'receive')
  assert.equal(code, 'store_locked')
  assert.match(message, new RegExp(`read by \`static mcp\` \\(process ${first.pid}\\).*mcp --as bob-2\``))
  // The first one ends, and the second becomes the reader.
  await first.close()
  await using owner = await place.agent('owner')
  await owner.send(ROUTING, 'for the new reader')
  const texts: (string | undefined)[] = []
  while (!texts.includes('for the new reader')) texts.push(...entriesOf(await received(second)).map(({ text }) => text))
  await second.close()
})

test('send with `confirm` waits for the receipts of the others', WHOLE_ONLY, async () => {
  const channel = 'acme/support/confirmed'
  await using owner = await place.agent('owner')
  await place.channel(owner, channel, 'bob')
  const bob = await newHost(place.command('bob', 'mcp'))
  const messages = owner.client.channel(channel).messages()
  const first = messages.next()
  const send = (confirm: string): Promise<object> => ok(bob, 'send', { channel, text: 'Please confirm.', confirm })
  const { index, id, ...said } = (await send('delivered')) as { index: number; id: string }
  assert.deepEqual([typeof index, typeof id, said], ['number', 'string', { confirmed: true, unreached: [] }])
  assert.equal(Buffer.from((await first).value ?? '').toString(), 'Please confirm.')
  // The second one is settled when the owner asks for a third.
  const settled = send('settled')
  await messages.next()
  void messages.next()
  assert.partialDeepStrictEqual(await settled, { confirmed: true, unreached: [] })
  await bob.close()
})

test('the end of a channel while no host ran is reported until it is confirmed', WHOLE_ONLY, async () => {
  const channel = 'acme/support/ended'
  await using owner = await place.agent('owner')
  await place.channel(owner, channel, 'bob')
  await owner.client.channel(channel).delete()
  const notices = async (host: Host): Promise<readonly string[]> => {
    for (;;) {
      const { channels } = await received(host)
      const ended = channels.find((found) => found.channel === channel)
      if (ended) return ended.entries.map(({ notice, code }) => `${notice} ${code}`)
    }
  }
  for (let session = 0; session < 2; session++) {
    const bob = await newHost(place.command('bob', 'mcp'))
    assert.deepEqual(await notices(bob), ['failed not_found'])
    await bob.close()
  }
})

test('a host that accepts pushes is told that a message waits, and from whom, but not what it says', async () => {
  const name = 'acme/support/pushes'
  await using owner = await place.agent('owner')
  await place.channel(owner, name, 'pat')
  const pat = await oldHost(place.command('pat', 'mcp', '--push'))
  assert.deepEqual(pat.client.getServerCapabilities()?.experimental, { 'claude/channel': {} })
  const pushed = Promise.withResolvers<{ readonly method: string; readonly params?: unknown }>()
  pat.client.fallbackNotificationHandler = (notification) => {
    pushed.resolve(notification)
    return Promise.resolve()
  }
  await owner.send(name, 'a secret')
  const meta = { channel: name, sender_agent_id: owner.client.agentId, sender_identity: 'owner' }
  assert.deepEqual(await pushed.promise, {
    jsonrpc: '2.0',
    method: 'notifications/claude/channel',
    params: { content: `A message is waiting in channel ${name}. Call receive to read it.`, meta },
  })
  await pat.close()
  const modern = await newHost(place.command('pat', 'mcp', '--push'))
  assert.equal(modern.client.getServerCapabilities()?.experimental, undefined)
  // The push has delivered nothing.
  const [entry] = entriesOf(await received(modern))
  assert.deepEqual([entry?.text, entry?.redelivered], ['a secret', false])
  await modern.close()
})

test('hosts of both generations use an agent over HTTP, and no one without its token', async (t) => {
  const channel = 'acme/support/http'
  await using owner = await place.agent('owner')
  await place.channel(owner, channel, 'hal')
  const { command, args, env } = place.command('hal', 'mcp', '--http', '0', '--json')
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const { url, token, token_file: file } = JSON.parse(line) as Record<'url' | 'token' | 'token_file', string>
  assert.deepEqual([readFileSync(file, 'utf8'), statSync(file).mode & 0o777], [`${token}\n`, 0o600])
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/mcp$/)
  const [modern, old] = await httpHosts(url, token)
  await ok(modern, 'send', { channel, text: 'over HTTP' })
  assert.equal(Buffer.from((await owner.receive(channel, 60)) ?? []).toString(), 'over HTTP')
  for (const [host, text] of [
    [modern, 'one'],
    [old, 'two'],
  ] as const) {
    await owner.send(channel, text)
    assert.deepEqual(
      entriesOf(await received(host)).map((entry) => [entry.text, entry.redelivered]),
      [[text, false]],
    )
  }
  const ask = (headers: Record<string, string>, body: string, signal?: AbortSignal): Promise<Response> => {
    const accept = 'application/json, text/event-stream'
    const all = { 'content-type': 'application/json', accept, ...headers }
    return fetch(url, { method: 'POST', body, headers: all, ...(signal && { signal }) })
  }
  const authorization = `Bearer ${token}`
  const statuses = [
    await ask({}, '{}'),
    await ask({ authorization: 'Bearer wrong' }, '{}'),
    await ask({ authorization, origin: 'https://evil.example' }, '{}'),
    await ask({ authorization }, '{'),
    await ask({ authorization }, '[]'),
    await ask({ authorization }, JSON.stringify('x'.repeat(2 * 1024 * 1024))),
    await ask({ authorization, 'mcp-session-id': 'unknown' }, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
  ].map(({ status }) => status)
  assert.deepEqual(statuses, [401, 401, 403, 400, 400, 413, 404])

  // A host that is gone loses nothing: the next one gets it.
  const begin = await ask({ authorization }, JSON.stringify({ jsonrpc: '2.0', ...HANDSHAKE }))
  const session = { authorization, 'mcp-session-id': begin.headers.get('mcp-session-id') ?? '' }
  const call = (id: number, name: string): string =>
    JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {} } })
  const gone = new AbortController()
  const lost = assert.rejects(ask(session, call(2, 'receive'), gone.signal))
  assert.equal((await ask(session, call(3, 'channels'))).status, 200)
  gone.abort()
  await lost
  await owner.send(channel, 'three')
  assert.deepEqual(
    entriesOf(await received(modern)).map((entry) => entry.text),
    ['three'],
  )
  await Promise.all([modern.close(), old.close()])

  // Each has announced a body and sends none.
  const held = Array.from({ length: 64 }, () => {
    const headers = { authorization, 'content-length': '2', expect: '100-continue' }
    return request(url, { method: 'POST', headers, agent: false })
  })
  const begun = Promise.all(held.map((each) => once(each, 'continue')))
  for (const each of held) {
    each.on('error', () => {})
    each.flushHeaders()
  }
  await begun
  assert.equal((await ask({ authorization }, '{}')).status, 503)
  const [first] = held
  const refused = once(first as ClientRequest, 'response')
  first?.end('{,')
  assert.equal(((await refused) as [IncomingMessage])[0].statusCode, 400, 'the others are still served')
  for (const each of held) each.destroy()

  const { args: again } = place.command('pat', 'mcp', '--http', new URL(url).port)
  const second = spawn(command, again, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const [said, [code]] = await Promise.all([text(second.stderr), once(second, 'exit')])
  assert.equal(code, 4)
  assert.match(said, /Cannot listen on 127\.0\.0\.1 port \d+: it is in use by another program\./m)
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [143, null])
})

/** A server in the configuration of a host. */
interface Configured {
  readonly type?: string
  readonly command?: string
  readonly args?: readonly string[]
  readonly url?: string
}

/** The server in a configuration, and the key that the host looks for. */
function configuredIn({ language, code }: Snippet): readonly [key: string, server: Configured] {
  if (language === 'json') {
    const [[key, servers] = ['', {}], ...rest] = Object.entries(JSON.parse(code) as Record<string, object>)
    assert.deepEqual([rest, Object.keys(servers)], [[], ['static']])
    return [key, (servers as { readonly static: Configured }).static]
  }
  const [first, ...lines] = code.split('\n')
  assert.equal(first, '[mcp_servers.static]')
  const fields = lines.map((line) => line.split(' = ', 2)).map(([name, value = '']) => [name, JSON.parse(value)])
  return ['toml', Object.fromEntries(fields) as Configured]
}

const PAGES = ['docs/11-mcp.md', 'docs/16-two-coding-agents.md']
const [CONFIGS = [], GUIDE = []] = PAGES.map((page) =>
  snippetsOf(page).filter(({ language }) => ['json', 'toml'].includes(language)),
)

test('the documentation configures the four hosts as they want it', () => {
  for (const snippets of [CONFIGS, GUIDE.slice(0, 4)]) {
    const found = snippets.map(configuredIn)
    assert.deepEqual(
      found.map(([key]) => key),
      ['mcpServers', 'mcpServers', 'servers', 'toml'],
    )
    for (const [, { type = 'stdio', command, args = [] }] of found) {
      assert.deepEqual([type, command, args.slice(0, 2), args.length], ['stdio', 'static', ['mcp', '--as'], 3])
    }
  }
  const overHttp = GUIDE.slice(4).map(configuredIn)
  assert.deepEqual(
    overHttp.map(([key, { url }]) => [key, url]),
    [
      ['mcpServers', 'http://127.0.0.1:4440/mcp'],
      ['toml', 'http://127.0.0.1:4440/mcp'],
    ],
  )
})

test('each of the four configurations in the documentation starts a server', WHOLE_ONLY, async () => {
  for (const snippet of CONFIGS) {
    const [, { args = [] }] = configuredIn(snippet)
    const [word = '', , identity = ''] = args
    await using owner = await place.agent('owner')
    const channel = `acme/support/${identity}`
    if (snippet === CONFIGS[0]) await place.channel(owner, channel, identity)
    const host = await oldHost(place.command(identity, word))
    const { tools } = await host.client.listTools()
    assert.equal(tools.length, 9)
    await host.close()
  }
})

test('two people follow the guide: their agents ask and answer across companies', async () => {
  const { command: node, args, env } = place.command('anna')
  const homes = { anna: join(place.workspace.path, 'anna'), ben: join(place.workspace.path, 'ben') }
  for (const home of Object.values(homes)) mkdirSync(home)
  // Ben has no account, and knows nothing of the server.
  const { PATH = '', NODE_COMPILE_CACHE = '' } = env
  const envs = { anna: { ...env, HOME: homes.anna }, ben: { PATH, NODE_COMPILE_CACHE, HOME: homes.ben } }
  const run = async (who: 'anna' | 'ben', heading: string, input = ''): Promise<string> => {
    const snippet = snippetsOf(PAGES[1] ?? '').find(({ name }) => name.endsWith(`#${heading}`))
    // The link goes from one home to the other as they would send it.
    const script = `static() { '${node}' '${args[0]}' "$@"; }\n${snippet?.code ?? 'exit 9'}`
    writeFileSync(join(homes[who], 'link'), input, { flag: input === '' ? 'a' : 'w' })
    const child = spawn('sh', ['-ec', script], { cwd: homes[who], env: { ...envs[who], AGENT: who } })
    const [said, wrong, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
    assert.equal(code, 0, wrong)
    return said
  }
  const hostOf = async (who: 'anna' | 'ben', snippet: Snippet | undefined): ReturnType<typeof newHost> => {
    assert.ok(snippet)
    const [, { args: words = [] }] = configuredIn(snippet)
    return await newHost({ command: node, args: [args[0] ?? '', ...words], env: envs[who] })
  }
  await run('anna', 'Anna creates the channel sh 1')
  const anna = await hostOf('anna', GUIDE[0])
  // As hosts do at once; from then on, her agent is online.
  await anna.client.listTools()
  await run('anna', 'Anna creates the channel sh 2')
  await run('ben', 'Ben joins sh 1', readFileSync(join(homes.anna, 'link'), 'utf8'))
  const ben = await hostOf('ben', GUIDE[3])
  const [one, other] = [
    await run('anna', 'They compare twelve words sh 1'),
    await run('ben', 'They compare twelve words sh 1'),
  ]
  assert.equal(one, other)
  const channel = 'anna/partners/checkout'
  const asking = ok<Asked>(anna, 'ask', { channel, to: 'ben', text: 'Which fields?' })
  const [entry] = entriesOf(await received(ben))
  await ok(ben, 'answer', { channel, request: entry?.request, text: 'amount and currency' })
  assert.deepEqual(
    (await asking).answers.map((answer) => answer.text),
    ['amount and currency'],
  )
  await Promise.all([anna.close(), ben.close()])
})
