/** Channels from the command line: two agents talk, and commands share one agent through its socket. */
import assert from 'node:assert/strict'
import { type ChildProcess } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { StaticClient } from '@static/sdk'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'
import { eventually } from '../support/agents.ts'
import { Person, shows, whereabouts } from './support.ts'

const workspace = await makeWorkspace()
const server = await startServer({
  workspace,
  dataDir: join(workspace.path, 'server'),
  command: 'up',
  settings: { argon2: QUICK['argon2'] },
  logLevel: 'silent',
})
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await server.end('SIGTERM')
  workspace[Symbol.dispose]()
})
const where = whereabouts(workspace, server)
const ROUTING = 'acme/support/routing'
const ann = new Person(workspace, 'ann', where)
const agents = join(ann.home, '.local/share/static/agents')
const socket = join(agents, 'alice/agent.sock')
/** Listeners run until the test stops them; this is only an upper bound. */
const LISTENS = 240_000

/** Starts a listener and waits until it is listening. */
async function listen(person: Person, flags: string): Promise<ChildProcess> {
  const child = person.start(`exec static channel listen ${flags}`, LISTENS)
  children.push(child)
  await shows(child.stderr!, 'static: listening on')
  return child
}

/** Signals a process and returns its exit code. */
async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  const ended = once(child, 'exit')
  child.kill(signal)
  return ((await ended) as [number | null])[0]
}

async function ok(person: Person, line: string): Promise<string> {
  const { code, stdout, stderr } = await person.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

void test('two agents talk, starting from sign-up', async () => {
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(ann, `echo 'a long enough password' | ${signup}`)
  const created = await ann.shell(`static channel create ${ROUTING} --as alice`)
  assert.equal(created.stdout, `Created ${ROUTING} (1 member).\n`, created.stderr)
  // The suggested commands name this agent.
  const [next, then] = ['listen', 'invite'].map((verb) => `static channel ${verb} ${ROUTING} --as alice`)
  assert.equal(created.stderr, `static: next: \`${next}\`, and \`${then}\` to invite others.\n`)
  assert.deepEqual([statSync(agents).mode & 0o777, statSync(join(agents, 'alice')).mode & 0o777], [0o700, 0o700])
  assert.ok(existsSync(join(agents, 'alice/.gitignore')))

  const alice = await listen(ann, `${ROUTING} --as alice`)
  assert.equal(statSync(socket).mode & 0o777, 0o600)
  // In a checkout, started by npm. Elsewhere, `npx static` runs the package of a stranger, with the token on its input.
  const invited = await ann.shell(`npm_execpath=npm static channel invite ${ROUTING} --as alice > token`)
  const version = (await ok(ann, 'static --version')).trim()
  assert.equal(
    invited.stderr,
    `static: this agent is listening: others with Static ${version} (static-${version}-linux-x64.tar.gz) can now run \`static channel join ${ROUTING}\` and paste the token. A machine that does not use this relay yet needs a link: add --link.\n`,
  )
  assert.match(readFileSync(join(ann.home, 'token'), 'utf8'), /^st_inv_[\w-]+\n$/)
  const joined = JSON.parse(await ok(ann, `static channel join ${ROUTING} --as bob --json < token`))
  assert.deepEqual([joined.members, joined.own], [2, false])

  const heard = shows(alice.stdout!, 'hello alice\n')
  const waiting = `echo hello alice | static channel send ${ROUTING} --as bob --wait settled --timeout 100`
  assert.equal(await ok(ann, waiting), 'Settled: 1 member(s).\n')
  await heard
  const receipts = await ok(ann, `static channel receipts ${ROUTING} --as bob`)
  assert.match(
    receipts,
    /^IDENTITY +DELIVERED +SETTLED +FINGERPRINT\nalice +([1-9]\d*) +[1-9]\d* +([\da-f]{4} ?){16}\n$/,
  )
  const said = await ann.shell(`static channel send ${ROUTING} --as alice hello bob`)
  assert.deepEqual(said, {
    code: 0,
    stdout: '',
    stderr: 'static: other users of this machine can see the message in the process list. Instead, send it on stdin.\n',
  })
  assert.equal(await ok(ann, `static channel listen ${ROUTING} --as bob --count 1 --timeout 20`), 'hello bob\n')
  // Messages reserved by a relay are neither used nor remaining. How many of them it has reported as used is its affair.
  const usage = await ok(ann, 'static usage')
  const counts = ['used', 'reserved', 'remaining'].map((what) => {
    const [, count = ''] = new RegExp(`^${what} +([\\d,]+)`, 'm').exec(usage) ?? []
    return Number(count.replaceAll(',', ''))
  })
  assert.ok(counts[1]! > 0, usage)
  assert.equal(counts[0]! + counts[1]! + counts[2]!, 100_000, usage)
  const words = await ok(ann, `static channel verify ${ROUTING} --as alice`)
  assert.match(words, /^(\w+ ){11}\w+\n$/)
  assert.equal(await ok(ann, `static channel verify ${ROUTING} --as bob`), words)
  assert.equal(
    await ok(ann, `static channel reset-roster ${ROUTING} --as alice`),
    `Reset the roster of ${ROUTING} (2 members).\n`,
  )
  assert.match(
    await ok(ann, `static channel vouch ${ROUTING} bob --as alice`),
    new RegExp(`^You vouch for bob \\(([\\da-f]{4} ?){16}\\) in ${ROUTING}\\.\n$`),
  )
  const members = await ok(ann, `static channel members ${ROUTING} --as alice`)
  assert.match(members, /^IDENTITY +ROLE +FINGERPRINT\n/)
  assert.match(members, /\nalice +owner, you +([\da-f]{4} ?){16}\n/)
  assert.match(members, /\nbob +([\da-f]{4} ?){16}\n/)
  assert.match(await ok(ann, 'static channel list --as alice'), new RegExp(`\n${ROUTING} +owner +2 +[\\da-f]{32}\n$`))
  assert.equal(await end(alice, 'SIGINT'), 130)
  assert.equal(statSync(socket, { throwIfNoEntry: false }), undefined)
})

void test('messages that a program put aside are listed, retried and dropped', WHOLE_ONLY, async () => {
  for (const order of ['order 1', 'order 2']) await ok(ann, `echo ${order} | static channel send ${ROUTING} --as alice`)
  const file = readFileSync(join(ann.home, '.config/static/credentials.json'), 'utf8')
  const { api_key: apiKey } = JSON.parse(file) as { api_key: string }
  const place = { endpoint: `quic://localhost:${server.relay.quicPort}`, ca: where['CA']!, apiUrl: server.url }
  const bob = await StaticClient.connect({ ...place, apiKey, identity: 'bob', dataDir: join(agents, 'bob') })
  const events = bob.events()
  const put: { readonly id: string; readonly index: number }[] = []
  const handling = bob.channel(ROUTING).handle(() => assert.fail('no such order'), { attempts: 1 })
  for await (const event of events) {
    if (event.type === 'poison') put.push({ id: event.messageId, index: event.index })
    if (put.length === 2) break
  }
  await bob.close()
  await handling

  const command = (words: string): string => `static channel poison ${words} --as bob`
  const listed = await ok(ann, command(`list ${ROUTING}`))
  const rows = put.map(({ id, index }) => `${id} +${index} +\\S+Z +alice +8 +1 +no such order\n`)
  assert.match(listed, new RegExp(`^MESSAGE +INDEX +TIME +SENDER +BYTES +ATTEMPTS +REASON\n${rows.join('')}$`))
  const [first, second] = put
  const retried = await ok(ann, command(`retry ${ROUTING} ${first!.id}`))
  assert.equal(retried, `Moved 1 message back to the inbox of ${ROUTING}.\n`)
  assert.equal(await ok(ann, `static channel listen ${ROUTING} --as bob --count 1 --timeout 20`), 'order 1\n')
  const unasked = await ann.shell(command(`drop ${ROUTING} ${second!.id}`))
  assert.deepEqual(
    [unasked.code, unasked.stderr],
    [1, 'static: Not a terminal, so I cannot ask. Pass --yes to continue.\n'],
  )
  const { messages } = JSON.parse(await ok(ann, command(`list ${ROUTING} --json`)))
  assert.deepEqual([messages.length, messages[0].index, messages[0].attempts], [1, second!.index, 1])
  assert.equal(await ok(ann, command(`drop ${ROUTING} ${second!.id}@${second!.index} --yes`)), 'Deleted 1 message.\n')
  assert.equal(await ok(ann, command(`list ${ROUTING}`)), '')
})

void test('an agent that was offline sees current members, words and channels', WHOLE_ONLY, async () => {
  const name = 'acme/support/away'
  await ok(ann, `static channel create ${name} --as alice`)
  const alice = await listen(ann, `${name} --as alice`)
  await ok(ann, `static channel invite ${name} --as alice | static channel join ${name} --as away`)
  await ok(ann, `seq 200 | static channel send ${name} --as alice --lines`)
  await ok(ann, `static channel invite ${name} --as alice | static channel join ${name} --as late`)
  const words = await ok(ann, `static channel verify ${name} --as alice`)
  // On a busy machine it may take longer to catch up than a command waits.
  await eventually(async () => assert.equal(await ok(ann, `static channel verify ${name} --as away`), words))
  assert.match(await ok(ann, `static channel members ${name} --as away`), /\nlate +/)
  assert.equal(await end(alice, 'SIGINT'), 130)
  await ok(ann, `static channel delete ${name} --as alice --yes`)
  // A deleted channel stays listed while it has unread messages.
  const deleted = /\nacme\/support\/away +member +deleted +/
  await eventually(async () => assert.match(await ok(ann, 'static channel list --as away'), deleted))
  await ok(ann, `static channel listen ${name} --as away --count 200 --timeout 20`)
  assert.equal(await ok(ann, 'static channel list --as away'), '')
})

void test('a guest joins with a token and the relay, which its agent remembers, and leaves', WHOLE_ONLY, async () => {
  const guest = new Person(workspace, 'guest', where)
  const alice = await listen(ann, `${ROUTING} --as alice`)
  const token = await ok(ann, `static channel invite ${ROUTING} --as alice --uses 2 --ttl 60`)
  writeFileSync(join(guest.home, 'token'), token)
  const joined = await guest.shell(`static channel join ${ROUTING} --as gus --token-file token --relay $RELAY --ca $CA`)
  assert.equal(joined.code, 0, joined.stderr)
  assert.match(joined.stderr, /next: `.*static channel listen acme\/\S+ --as gus`/)
  const heard = shows(alice.stdout!, 'one\ntwo\n\nfour\n')
  assert.equal(
    await ok(guest, `printf 'one\\r\\ntwo\\n\\nfour' | static channel send ${ROUTING} --as gus --lines --json`),
    `{"channel":"${ROUTING}","sent":4}\n`,
  )
  await heard
  assert.equal(await ok(guest, `static channel leave ${ROUTING} --as gus`), `Left ${ROUTING}.\n`)
  const gone = await guest.shell(`echo hi | static channel send ${ROUTING} --as gus`)
  assert.deepEqual(
    [gone.code, gone.stderr],
    [1, `static: This agent is not a member of channel ${ROUTING}. Create it, or join it with an invite.\n`],
  )
  const none = await ann.shell(`static channel poison list ${ROUTING} --as alice`)
  assert.deepEqual([none.code, none.stdout], [0, ''])
  assert.match(none.stderr, /no message was put aside/)
  const unknown = await ann.shell(`static channel poison drop ${ROUTING} ${'0'.repeat(32)} --as alice --yes`)
  assert.deepEqual(
    [unknown.code, unknown.stderr],
    [1, `static: No message ${'0'.repeat(32)} was put aside in this channel.\n`],
  )
  const refused = await guest.shell('static channel create acme/guests/own --as gus')
  assert.equal(refused.code, 3)
  assert.equal(await end(alice, 'SIGTERM'), 143)
})

void test('messages are printed unchanged, and a closed pipe ends the listener', WHOLE_ONLY, async () => {
  // Bob also receives the messages of the guest.
  assert.equal(await ok(ann, `static channel listen ${ROUTING} --as bob --count 4 --timeout 20`), 'one\ntwo\n\nfour\n')
  const bytes = randomBytes(200_000)
  writeFileSync(join(ann.home, 'picture'), Buffer.concat([bytes, Buffer.from('\n')]))
  await ok(ann, `static channel send ${ROUTING} --as alice < picture`)
  await ok(ann, `printf 'a \\033[31mred\\nword' | static channel send ${ROUTING} --as alice`)
  await ok(ann, `seq 3 | static channel send ${ROUTING} --as alice --lines`)
  await ok(ann, `static channel listen ${ROUTING} --as bob --count 1 --timeout 20 > copy`)
  const hash = (name: string): string =>
    createHash('sha256')
      .update(readFileSync(join(ann.home, name)))
      .digest('hex')
  assert.equal(hash('copy'), hash('picture'))
  // Escape sequences in a message do not reach the terminal.
  const shown = await ann.terminal(`static channel listen ${ROUTING} --as bob --count 1 --timeout 20`)
  assert.ok(shown.stdout.includes('alice\u001B[39m: a \\x1b[31mred\r\n    word\r\n'), shown.stdout)
  const one = JSON.parse(await ok(ann, `static channel listen ${ROUTING} --as bob --json --count 1 --timeout 20`))
  assert.deepEqual([one.channel, one.text, one.payload, one.sender.identity], [ROUTING, '1', 'MQ==', 'alice'])
  // With a closed pipe the listener exits quietly, and the message it could not print is not lost.
  const piped = await ann.shell(`static channel listen ${ROUTING} --as bob --timeout 20 | true; echo \${PIPESTATUS[0]}`)
  assert.equal(piped.stdout, '0\n')
  const again = JSON.parse(await ok(ann, `static channel listen ${ROUTING} --as bob --json --count 1 --timeout 20`))
  assert.deepEqual([again.text, again.redelivered], ['2', true])
  const nothing = await ann.shell(`static channel listen ${ROUTING} --as bob --count 5 --timeout 5`)
  assert.deepEqual([nothing.code, nothing.stdout], [1, '3\n'])
  assert.match(nothing.stderr, /No message arrived for 5 seconds \(--timeout\); 4 of 5 messages are missing\.\n$/)
  const large = await ann.shell(`head -c 300000 /dev/zero | static channel send ${ROUTING} --as alice`)
  assert.deepEqual(
    [large.code, large.stderr],
    [1, 'static: The message is larger than 262,144 bytes, the limit. Send it with --file.\n'],
  )
  const empty = await ann.shell(`static channel send ${ROUTING} --as alice < /dev/null`)
  assert.deepEqual(
    [empty.code, empty.stderr],
    [1, 'static: The message is empty. Pass the text as arguments or on stdin.\n'],
  )
})

void test('the socket left by a killed listener does no harm', async () => {
  const killed = await listen(ann, `${ROUTING} --as alice`)
  await end(killed, 'SIGKILL')
  assert.ok(statSync(socket).isSocket())
  assert.match(await ok(ann, 'static channel list --as alice'), /owner/)
  const alice = await listen(ann, `${ROUTING} --as alice`)
  const { ino } = statSync(socket)
  const heard = shows(alice.stdout!, 'after the crash\n')
  await ok(ann, `echo after the crash | static channel send ${ROUTING} --as bob`)
  await heard
  assert.equal(statSync(socket).ino, ino)
  assert.equal(await end(alice, 'SIGINT'), 130)
})

void test('of two listeners that start at once one opens the agent, and the others continue when it exits', async () => {
  const both = [1, 2].map(() => {
    const child = ann.start(`exec static channel listen ${ROUTING} --as alice`, LISTENS)
    children.push(child)
    let words = ''
    child.stderr!.on('data', (chunk: Buffer) => (words += chunk.toString()))
    return { child, words: () => words }
  })
  await Promise.all(both.map(({ child }) => shows(child.stderr!, 'static: listening on')))
  const [holder, other] = [...both].sort((one, two) => Number(isVisitor(one.words())) - Number(isVisitor(two.words())))
  assert.ok(holder && other)
  assert.deepEqual([isVisitor(holder.words()), isVisitor(other.words())], [false, true])
  const third = await listen(ann, `${ROUTING} --as alice --count 2`)
  assert.equal(await end(holder.child, 'SIGINT'), 130)
  // One of the remaining listeners has the agent open now; kill one without letting it say goodbye.
  await end(other.child, 'SIGKILL')
  const heard = shows(third.stdout!, 'who is left\nyou\n')
  const done = once(third, 'exit')
  await ok(ann, `printf 'who is left\\nyou\\n' | static channel send ${ROUTING} --as bob --lines`)
  await heard
  assert.deepEqual(await done, [0, null])
})

void test('messages for a listener that is gone go to the remaining one, immediately and in order', async () => {
  const holder = await listen(ann, `${ROUTING} --as alice`)
  const visitor = await listen(ann, `${ROUTING} --as alice`)
  const first = shows(holder.stdout!, 'first\n')
  const second = shows(holder.stdout!, 'first\nsecond\n')
  await ok(ann, `echo first | static channel send ${ROUTING} --as bob`)
  await first
  // It is the visitor's turn, but it is gone.
  await end(visitor, 'SIGKILL')
  await ok(ann, `echo second | static channel send ${ROUTING} --as bob`)
  await second
  assert.equal(await end(holder, 'SIGINT'), 130)
})

void test('an endless stdin does not keep an interrupted or failed command alive', async () => {
  const failed = await ann.shell(
    'static channel send acme/no/channel --as bob --lines < <(echo x; exec sleep 40 2> /dev/null)',
  )
  assert.deepEqual(
    [failed.code, failed.stderr],
    [1, 'static: This agent is not a member of channel acme/no/channel. Create it, or join it with an invite.\n'],
  )
  const sender = ann.start(
    `exec static channel send ${ROUTING} --as bob --lines < <(echo ready; exec sleep 40 2> /dev/null)`,
  )
  children.push(sender)
  const alice = ann.shell(`static channel listen ${ROUTING} --as alice --count 1 --timeout 20`)
  assert.equal((await alice).stdout, 'ready\n')
  assert.equal(await end(sender, 'SIGTERM'), 143)
})

function isVisitor(words: string): boolean {
  return words.includes('through the process that has this agent open')
}

void test('the socket accepts one well-formed request at a time, from a limited number of clients', async (t) => {
  const alice = await listen(ann, `${ROUTING} --as alice`)
  const directory = openSync(dirname(socket), 'r')
  t.after(() => closeSync(directory))
  // A socket path is limited to 107 bytes, and the path of the checkout may be longer.
  const short = `/proc/self/fd/${directory}/agent.sock`
  const frame = (value: unknown): Buffer => {
    const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
    const head = Buffer.alloc(4)
    head.writeUInt32BE(body.length)
    return Buffer.concat([head, body])
  }
  const send = async (bytes: Buffer): Promise<string> => {
    const visitor = connect(short)
    visitor.write(bytes)
    let answer = ''
    visitor.on('data', (chunk: Buffer) => {
      answer += chunk.subarray(4).toString()
      visitor.end()
    })
    await once(visitor, 'close')
    return answer
  }
  const list = frame({ action: 'list', args: [] })
  assert.match(await send(list), /^\{"result":\[\{"name":"acme/)
  assert.equal(await send(Buffer.from([0xff, 0xff, 0xff, 0xff])), '')
  assert.equal(await send(frame('no json')), '')
  assert.equal(await send(Buffer.concat([frame({ action: 'next', args: [ROUTING] }), list])), '')
  for (const odd of [null, {}, { action: 'constructor', args: [] }, { action: 'list', args: [{}] }]) {
    assert.match(await send(frame(odd)), /^\{"error":\{"code":"invalid_request"/)
  }
  assert.match(await send(frame({ action: 'members', args: ['x'] })), /"code":"channel_error"/)

  const crowd: Socket[] = []
  for (let at = 0; at < 32; at++) {
    const visitor = connect(short)
    await once(visitor, 'connect')
    crowd.push(visitor)
  }
  assert.match(
    await send(list),
    /"code":"unavailable","message":"Too many commands use this agent at once \(limit: 32\)\./,
  )
  for (const visitor of crowd) visitor.destroy()
  assert.equal(await end(alice, 'SIGINT'), 130)
})

void test('an agent in a directory with a long path can be shared', WHOLE_ONLY, async () => {
  const long = join(ann.home, 'a-directory-with-a-long-name/'.repeat(5))
  const flags = `${ROUTING}-2 --as carl --data-dir ${long}`
  await ok(ann, `mkdir -m 700 -p ${long} && static channel create ${flags}`)
  const carl = await listen(ann, flags)
  assert.equal(statSync(join(long, 'agent.sock')).mode & 0o777, 0o600)
  const sent = JSON.parse(await ok(ann, `echo hi | static channel send ${flags} --json --timeout 20`))
  assert.deepEqual([sent.channel, sent.sent], [`${ROUTING}-2`, 1])
  assert.match(`${sent.message_id} ${sent.index}`, /^[0-9a-f]{32} [1-9]\d*$/)
  assert.equal(await end(carl, 'SIGINT'), 130)
  const asked = await ann.shell(`static channel delete ${flags}`)
  assert.deepEqual(
    [asked.code, asked.stderr],
    [1, 'static: Not a terminal, so I cannot ask. Pass --yes to continue.\n'],
  )
  assert.equal(await ok(ann, `static channel delete ${flags} --yes`), `Deleted ${ROUTING}-2.\n`)
})

void test('a socket in a directory that other users can access is not used', async () => {
  const open = join(ann.home, 'open')
  mkdirSync(open)
  chmodSync(open, 0o755)
  const trap = createServer(() => assert.fail('a command connected to the socket')).listen(join(open, 'agent.sock'))
  await once(trap, 'listening')
  const refused = await ann.shell(`echo secret | static channel send ${ROUTING} --as bob --data-dir ${open}`)
  assert.deepEqual([refused.code, refused.stdout], [1, ''])
  assert.match(refused.stderr, /open is accessible by other users: run `chmod 700 /)
  trap.close()
})

void test('joining while the owner is not listening shows a progress message, then an error', WHOLE_ONLY, async () => {
  const token = await ok(ann, `static channel invite ${ROUTING} --as alice`)
  writeFileSync(join(ann.home, 'token'), token)
  const late = await ann.terminal(`static channel join ${ROUTING} --as dora --token-file token --timeout 1.5`)
  assert.ok(late.stdout.includes(' Waiting to be admitted …'), late.stdout)
  assert.match(late.stdout, /static: .*owner.*\r\n$/)
  assert.equal(late.code, 4)
})

void test('while the server is down, sending says that nothing was kept, and channels are listed as last known', async () => {
  const down = '--relay https://localhost:1'
  for (const [line, consequence] of [
    [`echo hi | static channel send ${ROUTING} --as bob ${down}`, 'The message was not kept: send it again'],
    [`seq 3 | static channel send ${ROUTING} --as bob --lines ${down}`, 'No line was kept: send them again'],
  ] as const) {
    const { code, stdout, stderr } = await ann.shell(line)
    assert.deepEqual([code, stdout], [4, ''])
    assert.ok(stderr.includes(` ${consequence} when the server can be reached.\n`), stderr)
  }
  const online = JSON.parse(await ok(ann, 'static channel list --as bob --json'))
  const listed = await ann.shell(`static channel list --as bob ${down}`)
  assert.equal(listed.code, 0, listed.stderr)
  assert.match(listed.stdout, /\nacme\/support\/routing +member +2 /)
  assert.match(listed.stderr, /static: the relay does not answer: this is what the agent last knew\.\n$/)
  const { channels } = JSON.parse(await ok(ann, `static channel list --as bob --json ${down}`))
  const stale = online.channels.map((channel: object) => ({ ...channel, stale: true }))
  assert.deepEqual(channels, stale)
})

void test('a message is printed byte by byte, with nothing added, wherever it goes', async () => {
  const bytes = Buffer.concat([randomBytes(1000), Buffer.from('\u001B[31m no line feed')])
  writeFileSync(join(ann.home, 'raw'), bytes)
  await ok(ann, `static channel send ${ROUTING} --as alice < raw`)
  await ok(ann, `static channel listen ${ROUTING} --as bob --raw --count 1 --timeout 20 > copied`)
  assert.deepEqual(readFileSync(join(ann.home, 'copied')), bytes)
  const both = await ann.shell(`static channel listen ${ROUTING} --as bob --raw --json`)
  assert.equal(both.code, 2)
  assert.match(both.stderr, /^error: option '--raw' cannot be used with option '--json'\n/)
})

void test('a channel whose owner is gone with its directory is deleted by the key of the account', async () => {
  const name = 'acme/support/orphan'
  await ok(ann, `static channel create ${name} --as lost`)
  await ok(ann, 'static agent delete --as lost --yes')
  const named = await ann.shell(`static channel delete ${name} --as lost --yes`)
  assert.equal(named.code, 1)
  assert.match(
    named.stderr,
    /^static: There is no agent "lost" on this machine\. .* by the key of your account: `.*static channel delete acme\S+`\.\n$/,
  )
  const mistyped = await ann.terminal(`static channel delete ${name}`, [['confirm: ', 'acme/support\r']])
  assert.match(mistyped.stdout, /will be deleted for all its members, permanently\.\r\n/)
  assert.match(mistyped.stdout, /static: Cancelled\. Nothing was changed\.\r\n$/)
  assert.equal(mistyped.code, 1)
  assert.equal((await ann.terminal(`static channel delete ${name}`, [['confirm: ', '\u0003']])).code, 130)
  const down = await ann.shell(`static channel delete ${name} --yes --relay https://localhost:1`)
  assert.deepEqual([down.code, down.stdout], [4, ''])

  const deleted = await ann.terminal(`static channel delete ${name}`, [['confirm: ', `${name}\r`]])
  assert.match(deleted.stdout, /\nDeleted acme\/support\/orphan\.\r\nstatic: it was deleted by the key of your account/)
  assert.equal(deleted.code, 0)
  const again = await ann.shell(`static channel delete ${name} --yes`)
  assert.equal(again.code, 1)
  assert.match(again.stderr, /^static: Your account owns no channel acme\/support\/orphan at quic:\S+\.\n$/)
  assert.match(await ok(ann, `static channel create ${name} --as alice`), /^Created/)
  // A member that does not own it deletes it by the same key, and its owner hears it.
  assert.equal(await ok(ann, `static channel delete ${name} --as bob --yes`), `Deleted ${name}.\n`)
  await eventually(async () => assert.doesNotMatch(await ok(ann, 'static channel list --as alice'), /orphan/))
  const stranger = new Person(workspace, 'stranger', { STATIC_API_URL: where['API'], STATIC_CA: where['CA'] })
  const refused = await stranger.shell(`static channel delete ${ROUTING} --yes`)
  assert.deepEqual([refused.code, refused.stdout], [3, ''])
  assert.match(refused.stderr, /^static: You are not signed in\./)
})

void test('after its key is revoked, the next command is refused', async () => {
  const { keys } = JSON.parse(await ok(ann, 'static keys list --json'))
  const revoked = await ann.shell(`static keys revoke --yes ${keys[0].id}`)
  assert.match(revoked.stderr, /^static: that was your current key; run `static login` to get a new one\.\n$/)
  const refused = await ann.shell(`echo hi | static channel send ${ROUTING} --as alice`)
  assert.deepEqual([refused.code, refused.stdout], [3, ''])
})
