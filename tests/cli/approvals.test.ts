/** Approvals on the command line: a script that waits for people, people who decide, and records that are checked. */
import assert from 'node:assert/strict'
import { type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type Ended, Person, shows, whereabouts } from './support.ts'

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
const CHANNEL = 'acme/ops/deploys'
const PLAN = '{"deploy":"1.4.2"}\n'
const ann = new Person(workspace, 'ann', whereabouts(workspace, server))
const at = (name: string): string => join(ann.home, name)

async function ok(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

/** Starts to ask as bot, and waits until it has. Resolves with the id, and what the command ends with. */
async function ask(flags: string): Promise<{ readonly id: string; readonly ended: Promise<Ended> }> {
  const command = `exec static channel request-approval ${CHANNEL} --as bot --action plan.json ${flags}`
  const child = ann.start(command)
  children.push(child)
  const [stdout, stderr, closed] = [text(child.stdout!), text(child.stderr!), once(child, 'close')]
  await shows(child.stderr!, '; waiting.')
  const ended = Promise.all([closed, stdout, stderr]).then(([[code], out, err]): Ended => {
    return { code: code as number, stdout: out, stderr: err }
  })
  const { approvals } = JSON.parse(await ok(`static channel approvals ${CHANNEL} --as ada --json`)) as {
    approvals: readonly { readonly id: string; readonly state: string }[]
  }
  return { id: approvals.findLast(({ state }) => state === 'pending')?.id ?? assert.fail(), ended }
}

const idOf = async (name: string): Promise<string> =>
  (JSON.parse(await ok(`static agent export-fingerprint --as ${name} --json`)) as { agent_id: string }).agent_id

void test('a deploy waits for two of three, and only the approved bytes come out', async () => {
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(`echo 'a long enough password' | ${signup}`)
  await ok(`static channel create ${CHANNEL} --as bot`)
  // The process that has the agent open, for the commands that follow.
  const listener = ann.start(`exec static channel listen ${CHANNEL} --as bot`, 240_000)
  children.push(listener)
  await shows(listener.stderr!, 'static: listening on')
  await ok(`static channel invite ${CHANNEL} --as bot --uses 3 > token`)
  for (const name of ['ada', 'ben', 'cy']) await ok(`static channel join ${CHANNEL} --as ${name} < token`)
  writeFileSync(at('plan.json'), PLAN)
  assert.equal(
    (await ann.shell(`static channel approvals ${CHANNEL} --as ada`)).stderr,
    'static: there is nothing to approve.\n',
  )

  const flags = `--title 'Deploy \u202e1.4.2' --text $'All tests pass.\\n  | {"deploy":"9.9.9"}' --risk high --out record.json`
  const { id, ended } = await ask(`--from ada,ben,cy --need 2 ${flags}`)
  // What is asked for is the file as it was.
  writeFileSync(at('plan.json'), '{"deploy":"evil"}\n')
  const listed = await ok(`static channel approvals ${CHANNEL} --as ada`)
  assert.match(listed, new RegExp(`^APPROVAL .*\n${id} +pending +0 of 2 +.* UTC +bot +Deploy \\\\u\\{202e\\}1.4.2\n$`))

  const decided = await ann.terminal(`static channel decide ${CHANNEL} ${id} approve --as ada`, [
    ['Approve exactly this action? [y/N]', 'y\n'],
  ])
  assert.equal(decided.code, 0, decided.stdout + decided.stderr)
  const lines = decided.stdout.replaceAll('\r', '').split('\n')
  const actionAt = lines.findIndex((line) => line.includes('which alone is executed:'))
  const wordsAt = lines.findIndex((line) => line.includes("The asker's words, which nothing ties to the action:"))
  assert.deepEqual(lines.slice(actionAt + 1, wordsAt), ['  | {"deploy":"1.4.2"}', '  | '])
  assert.deepEqual(lines.slice(wordsAt + 1, wordsAt + 5), [
    '  > title Deploy \\u{202e}1.4.2',
    '  > risk  high',
    '  > text  All tests pass.',
    '  >         | {"deploy":"9.9.9"}',
  ])
  const again = await ann.shell(`static channel decide ${CHANNEL} ${id} deny --as ada --yes`)
  assert.equal(again.code, 3)
  assert.match(again.stderr, /first decision is final/)
  await ok(`static channel decide ${CHANNEL} ${id} approve --as cy --yes`)
  const { code, stdout, stderr } = await ended
  assert.deepEqual([code, stdout], [0, PLAN], stderr)
  assert.match(stderr, /ada has approved it \(.*, unattended\)\.\n.*cy has approved it/)
  // One execution: that it is used is known to the agent.
  const own = JSON.parse(await ok(`static channel approvals ${CHANNEL} --as bot --json`)) as {
    approvals: readonly { readonly state: string; readonly used: boolean }[]
  }
  assert.deepEqual(
    own.approvals.map(({ state, used }) => [state, used]),
    [['approved', true]],
  )
})

void test('the record is checked without a channel: only for these agents and bytes, and once where that is noted', async () => {
  const [ada, ben, cy] = await Promise.all(['ada', 'ben', 'cy'].map(idOf))
  writeFileSync(at('approved.json'), PLAN)
  // Without an account, a relay or an agent.
  const check = (from: string, rest: string): string =>
    `env -u API -u RELAY HOME=/nonexistent static approval check record.json --from ${from} ${rest}`
  const good = check(`${ada},${ben},${cy}`, '--need 2 --action approved.json')
  assert.equal(await ok(good), 'The record permits the action: 2 of the expected agents have approved it.\n')
  const { channel_id: channel } = JSON.parse(await ok(`${good} --json`)) as { readonly channel_id: string }
  await ok(`${good} --channel ${channel}`)
  const refusals: readonly (readonly [string, number, RegExp])[] = [
    [check(`${ada},${ben},${cy}`, '--need 2 --action plan.json'), 3, /It is for another action/],
    [
      check(`${ada},${ben},${cy}`, '--need 3 --action approved.json'),
      3,
      /2 of the expected agents have approved; 3 are/,
    ],
    [check(`${ada},${ben}`, '--need 1 --action approved.json'), 3, /1 of the expected agents have approved; 2 are/],
    // The same bytes may have been approved elsewhere; nothing is noted then.
    [`mkdir spent; ${good} --channel ${'0'.repeat(32)} --spend spent`, 3, /It is for channel [0-9a-f]{32}, not 0{32}/],
    [`${good} --spend missing`, 1, /missing is not a directory/],
  ]
  for (const [line, expected, message] of refusals) {
    const { code, stderr } = await ann.shell(line)
    assert.equal(code, expected, stderr)
    assert.match(stderr, message)
  }
  await ok(`${good} --channel ${channel} --spend spent`)
  const twice = await ann.shell(`${good} --spend spent`)
  assert.equal(twice.code, 3)
  assert.match(twice.stderr, /The approval is used/)
  const record = readFileSync(at('record.json'), 'utf8')
  writeFileSync(at('record.json'), record.replace(/"decisions":\[(\{.*?\})/, '"decisions":[$1,$1'))
  await ok(good)
})

void test('denied and expired have exit codes of their own, and nothing on stdout', async () => {
  // Words that would look like the action if they wrapped at the edge of the terminal.
  const lie = `${' '.repeat(70)}The action, 17 bytes, which alone is executed:${' '.repeat(34)}  | {"deploy":"safe"}`
  const denied = await ask(`--from ada,ben --need 2 --text '${lie}' --title '${lie}'`)
  const decided = await ann.terminal(`static channel decide ${CHANNEL} ${denied.id} deny --as ben --json`, [
    ['Deny exactly this action? [y/N]', 'y\n'],
  ])
  assert.equal(decided.code, 0, decided.stdout + decided.stderr)
  const lines = decided.stdout.replaceAll('\r', '').split('\n')
  const wordsAt = lines.findIndex((line) => line.includes("The asker's words, which nothing ties to the action:"))
  const endAt = lines.findIndex((line) => line.includes('Deny exactly'))
  assert.ok(wordsAt > 0 && endAt > wordsAt + 4, decided.stdout)
  for (const line of lines.slice(wordsAt + 1, endAt)) {
    assert.match(line, /^ {2}> /)
    assert.ok(line.length <= 80, line)
  }
  const first = await denied.ended
  assert.deepEqual([first.code, first.stdout], [10, 'It is denied by ben.\n'], first.stderr)
  const expired = await ask('--from ada --need 1 --timeout 8 --json')
  const second = await expired.ended
  assert.equal(second.code, 11)
  const { decision, by, action } = JSON.parse(second.stdout) as { decision: string; by: unknown; action: unknown }
  assert.deepEqual([decision, by, action], ['expired', [], undefined])
  // Half an action is not executed: a disk that is full is no success.
  const full = await ask('--from ada --need 1 > /dev/full')
  await ok(`static channel decide ${CHANNEL} ${full.id} approve --as ada --yes`)
  const third = await full.ended
  assert.equal(third.code, 1)
  assert.match(third.stderr, /was not written to stdout/)
  const late = await ann.shell(`static channel decide ${CHANNEL} ${expired.id} approve --as ada --yes`)
  assert.equal(late.code, 1)
  assert.match(late.stderr, /no approval .* whose deadline has not come/)
  const self = await ann.shell(
    `static channel request-approval ${CHANNEL} --as bot --action plan.json --from bot --need 1`,
  )
  assert.equal(self.code, 1)
  assert.match(self.stderr, /The one who asks cannot decide/)
})

void test('a decision is attended only if a passphrase, which alone opens the agent, is typed for it', async () => {
  await ok(`umask 077; echo 'correct horse' > secret`)
  await ok('static agent slots add passphrase --as cy --new-passphrase-stdin < secret')
  const { slots } = JSON.parse(await ok('static agent slots list --as cy --json')) as {
    slots: readonly { readonly id: string; readonly type: string }[]
  }
  const decide = async (id: string, as: string, steps: readonly (readonly [string, string])[]): Promise<Ended> =>
    await ann.terminal(`static channel decide ${CHANNEL} ${id} approve --as cy ${as}`, steps)
  const CONFIRM = ['Approve exactly this action? [y/N]', 'y\n'] as const
  const attended = async (as: string, steps: readonly (readonly [string, string])[]): Promise<string> => {
    const { id, ended } = await ask('--from cy,ada --need 1 --json')
    const done = await decide(id, as, [CONFIRM, ...steps])
    assert.equal(done.code, 0, done.stdout)
    const { by } = JSON.parse((await ended).stdout) as { by: readonly { readonly attended: boolean }[] }
    return by.map((each) => each.attended).join()
  }
  // A key file opens it as well.
  assert.equal(await attended('', []), 'false')
  await ok(
    `static agent slots remove ${slots.find(({ type }) => type === 'file')?.id} --as cy --yes --passphrase-file secret`,
  )
  const asked = 'Passphrase of cy, for this decision:'
  assert.equal(await attended('--passphrase-file secret', [[asked, 'correct horse\n']]), 'true')
  const { id } = await ask('--from cy,ada --need 1')
  const wrong = await decide(id, '--passphrase-file secret', [CONFIRM, [asked, 'wrong horse\n']])
  assert.equal(wrong.code, 1)
  assert.match(wrong.stdout, /does not open the agent/)
  await ok(`static channel decide ${CHANNEL} ${id} deny --as ada --yes`)
})
