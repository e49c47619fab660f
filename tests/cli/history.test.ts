/** A history on the command line: off until it is turned on, read without a relay, and erased. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { Person, shows, whereabouts } from './support.ts'

const workspace = await makeWorkspace()
const server = await startServer({
  workspace,
  dataDir: join(workspace.path, 'server'),
  command: 'up',
  settings: { argon2: QUICK['argon2'] },
  logLevel: 'silent',
})
let isUp = true
const down = async (): Promise<void> => {
  if (isUp) await server.end('SIGTERM')
  isUp = false
}
after(async () => {
  await down()
  workspace[Symbol.dispose]()
})
const CHANNEL = 'acme/support/history'
const ann = new Person(workspace, 'ann', whereabouts(workspace, server))
/** It clears a screen, turns text around and begins a line. */
const HOSTILE = 'a\u001B[2J\u202Egnp.exe\nx: y'

async function ok(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

interface Kept {
  readonly days: number | null
  readonly messages: readonly {
    readonly text: string
    readonly own: boolean
    readonly sender: { readonly name: string }
  }[]
}

const kept = async (flags = ''): Promise<Kept> =>
  JSON.parse(await ok(`static channel history ${CHANNEL} --as ada --json ${flags}`)) as Kept
const texts = async (flags = ''): Promise<string[]> => (await kept(flags)).messages.map(({ text }) => text)

void test('a history is turned on, read offline and erased', { timeout: 240_000 }, async () => {
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(`echo 'a long enough password' | ${signup}`)
  await ok(`static channel create ${CHANNEL} --as ada`)
  const host = ann.start(`exec static channel listen ${CHANNEL} --as ada`, 120_000)
  await shows(host.stderr!, 'static: listening on')
  await ok(`static channel invite ${CHANNEL} --as ada | static channel join ${CHANNEL} --as ben`)
  // A process that has the agent open is named.
  for (const command of [`channel history ${CHANNEL}`, 'agent history', 'agent history --days 30']) {
    const { code, stderr } = await ann.shell(`static ${command} --as ada`)
    assert.deepEqual([code, /`static channel listen` \(process \d+\)\. Stop it/.test(stderr)], [1, true], stderr)
  }
  const ended = once(host, 'exit')
  host.kill('SIGTERM')
  await ended

  const listen = (count: number): Promise<string> => ok(`static channel listen ${CHANNEL} --as ada --count ${count}`)
  await ok(`static channel send ${CHANNEL} --as ben 'before'`)
  await listen(1)
  assert.deepEqual(await kept(), { channel: CHANNEL, days: null, messages: [] } as unknown as Kept)
  assert.match(await ok('static agent history --as ada'), /^Agent ada keeps no messages\.$/m)
  assert.match((await ann.shell(`static channel history ${CHANNEL} --as ada`)).stderr, /`.*agent history --days 30`/)

  assert.match(await ok('static agent history --days 30 --as ada'), /keeps messages for 30 days/)
  for (const text of ['one', HOSTILE]) await ok(`static channel send ${CHANNEL} --as ben "$(printf '${text}')"`)
  await listen(2)
  await ok(`static channel send ${CHANNEL} --as ada 'mine'`)
  // Without a relay.
  await down()
  const { days, messages } = await kept()
  assert.deepEqual(
    [days, ...messages.map(({ text, own }) => `${own} ${text}`)],
    [30, 'false one', `false ${HOSTILE}`, 'true mine'],
  )
  for (const { sender } of messages) assert.match(sender.name, /^(ada|ben) \([0-9a-f]{8}…\)$/)
  assert.deepEqual(await texts('--limit 1'), ['mine'])
  const shown = await ok(`static channel history ${CHANNEL} --as ada`)
  const lines = shown.trimEnd().split('\n')
  assert.match(lines[0]!, /^\d{4}-\d\d-\d\d$/)
  assert.match(lines[1]!, /^\d\d:\d\d:\d\d ben \([0-9a-f]{8}…\): one$/)
  assert.ok(shown.includes('a\\x1b[2J\\u{202e}gnp.exe\n    x: y\n'), shown)

  await ok(`static channel history ${CHANNEL} --as ada --erase --yes`)
  assert.deepEqual(await texts(), [])
  assert.match(await ok('static agent history --days off --yes --as ada'), /keeps no messages/)
  assert.equal((await kept()).days, null)
  const { code, stderr } = await ann.shell(`static channel history acme/no/such --as ada`)
  assert.deepEqual([code, /not a member of channel acme\/no\/such/.test(stderr)], [1, true], stderr)
  for (const flags of ['--days 0', '--days 366', '--days x'])
    assert.equal((await ann.shell(`static agent history ${flags} --as ada`)).code, 2, flags)
})
