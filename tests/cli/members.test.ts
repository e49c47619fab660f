/** Members, invites and agents from the command line: who is in a channel, who may join, which agents are here. */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { startDomainServer } from '@static/testkit/issuers/domain'
import { contentOf, found } from '@static/testkit/search'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'
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
const ann = new Person(workspace, 'ann', whereabouts(workspace, server))
const agents = join(ann.home, '.local/share/static/agents')
const TASKS = 'acme/support/tasks'
/** Commands that run until the test stops them; this is only an upper bound. */
const RUNS = 240_000

async function ok(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

async function refused(line: string, expected: RegExp): Promise<void> {
  const { code, stderr } = await ann.shell(line)
  assert.equal(code, 1, line)
  assert.match(stderr, expected)
}

async function running(line: string, ready: string): Promise<ChildProcess> {
  const child = ann.start(`exec static ${line}`, RUNS)
  children.push(child)
  await shows(child.stderr!, ready)
  return child
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGINT')
  assert.deepEqual(await ended, [130, null])
}

before(async () => {
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(`echo 'a long enough password' | ${signup}`)
  await ok(`static channel create ${TASKS}-0 --as alice`)
})

void test(
  'an owner sees who joins and leaves, lists and revokes invites, and removes a member',
  WHOLE_ONLY,
  async () => {
    await ok(`static channel create ${TASKS} --as alice`)
    const holder = await running(`channel members ${TASKS} --as alice --watch`, 'static: watching the members of')
    // A second one goes through the first.
    const visitor = await running(`channel members ${TASKS} --as alice --watch`, 'static: watching the members of')
    await ok(`static channel invite ${TASKS} --as alice --uses 2 > token`)
    const [invite] = JSON.parse(await ok(`static channel invite list ${TASKS} --as alice --json`)).invites
    assert.deepEqual([invite.state, invite.uses, invite.max_uses], ['open', 0, 2])
    assert.match(
      await ok(`static channel invite list ${TASKS} --as alice`),
      new RegExp(
        `^INVITE +ADMITTED BY +STATE +USED +EXPIRES\n${invite.id}  owner +open +0 of 2 +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d UTC\n$`,
      ),
    )

    const joins = [holder, visitor].map((child) => shows(child.stdout!, ') joined.\n'))
    await ok(`static channel join ${TASKS} --as bob < token`)
    await Promise.all(joins)
    assert.equal(await ok(`static channel rotate ${TASKS} --as bob`), `Replaced the keys of this agent in ${TASKS}.\n`)
    const fingerprint = (await ok('static agent export-fingerprint --as bob')).trim()
    assert.match(fingerprint, /^([\da-f]{4} ){15}[\da-f]{4}$/)

    await refused(`static channel remove ${TASKS} carl --as alice --yes`, /has no member "carl"\. Use a fingerprint/)
    // Too few digits to be sure.
    await refused(`static channel remove ${TASKS} ${fingerprint.slice(0, 4)} --as alice --yes`, /has no member/)
    const leaves = [holder, visitor].map((child) => shows(child.stdout!, `bob (${fingerprint}) left or was removed.\n`))
    assert.equal(
      await ok(`static channel remove ${TASKS} '${fingerprint.slice(0, 9)}' --as alice --yes`),
      `Removed bob (${fingerprint}) from ${TASKS}.\n`,
    )
    await Promise.all(leaves)
    // The invite it joined with is revoked, so it cannot come back.
    assert.match(
      await ok(`static channel invite list ${TASKS} --as alice`),
      new RegExp(`\n${invite.id}  owner +revoked +1 of 2 `),
    )
    await end(holder)
    // The other one carries on.
    await ok(`static channel invite ${TASKS} --as alice > another`)
    const [, other] = JSON.parse(await ok(`static channel invite list ${TASKS} --as alice --json`)).invites
    assert.equal(await ok(`static channel invite revoke ${other.id} --as alice`), `Revoked invite ${other.id}.\n`)
    assert.equal((await ann.shell('static channel invite revoke st_inv_secret --as alice')).code, 2)
    await refused(`static channel invite revoke ${'0'.repeat(32)} --as alice`, /This agent has no invite 0{32}\./)
    await refused(`static channel join ${TASKS} --as carl < another`, /revoked/)
    await end(visitor)
  },
)

void test('an identity that looks like the agent id of another member removes neither', async () => {
  const victim = JSON.parse(await ok('static agent export-fingerprint --as alice --json')).agent_id
  const trap = victim.slice(0, 12)
  await ok(`static channel create ${TASKS}-2 --as alice`)
  const listener = await running(`channel listen ${TASKS}-2 --as alice`, 'static: listening on')
  await ok(`static channel invite ${TASKS}-2 --as alice | static channel join ${TASKS}-2 --as ${trap}`)
  await refused(`static channel remove ${TASKS}-2 ${trap} --as alice --yes`, /has 2 members that match/)
  const id = JSON.parse(await ok(`static agent export-fingerprint --as ${trap} --json`)).agent_id
  assert.match(await ok(`static channel remove ${TASKS}-2 ${id} --as alice --yes`), new RegExp(`^Removed ${trap} \\(`))
  await end(listener)
})

void test('a name that imitates a line, or another name, is not mistaken for it on a terminal', async () => {
  const name = `${TASKS}-3`
  const liar = 'bob: Yes, I checked the invoice. Please pay it today.'
  const as = ['bob', 'B0b', `'${liar}'`]
  await ok(`static channel create ${name} --as alice`)
  const holder = await running(
    `channel listen ${name} --as alice --exec 'cat > /dev/null'`,
    'static: handling messages',
  )
  for (const who of as) {
    await ok(`static channel invite ${name} --as alice | static channel join ${name} --as ${who}`)
  }
  await end(holder)
  for (const who of as) await ok(`echo hello | static channel send ${name} --as ${who}`)
  const { stdout } = await ann.terminal(`NO_COLOR=1 static channel listen ${name} --as alice --count 3 2> notes`)
  const lines = stdout.split('\r\n').map((line) => line.replace(/^\d\d:\d\d:\d\d /, ''))
  const ids = await Promise.all(
    as.map(async (who) =>
      JSON.parse(await ok(`static agent export-fingerprint --as ${who} --json`)).agent_id.slice(0, 8),
    ),
  )
  assert.deepEqual(lines.filter(Boolean), [
    `bob (${ids[0]}…): hello`,
    `B0b (${ids[1]}…): hello`,
    `"${liar}" (${ids[2]}…): hello`,
  ])
  assert.match(await ok(`static channel members ${name} --as alice`), new RegExp(`\n"${liar}" +[\\da-f]{4} `))
  // Programs get the identity as it is.
  const { members } = JSON.parse(await ok(`static channel members ${name} --as alice --json`))
  const identities = members.map(({ identity }: { identity: string }) => identity)
  assert.deepEqual(identities.sort(), ['B0b', 'alice', 'bob', liar])
})

void test('an answer cannot clear the terminal of the asker, set its title or imitate another member', async () => {
  const name = `${TASKS}-5`
  await ok(`static channel create ${name} --as alice`)
  const listener = await running(`channel listen ${name} --as alice`, 'static: listening on')
  await ok(`static channel invite ${name} --as alice | static channel join ${name} --as bob`)
  writeFileSync(
    join(ann.home, 'answer.sh'),
    String.raw`printf '\033]0;owned\007\033[2J\033[1;1Halice: send bob your key\n'`,
  )
  const server = await running(`channel serve ${name} --as bob --exec 'sh answer.sh'`, 'static: answering requests')
  const line = `static channel ask ${name} --as alice --to bob status`
  const { stdout } = await ann.terminal(`NO_COLOR=1 ${line} 2> notes`)
  assert.match(stdout, /^\d\d:\d\d:\d\d bob: \\x1b\]0;owned\\x07\\x1b\[2J\\x1b\[1;1Halice: send bob your key\r\n$/)
  // A program gets the bytes as they are.
  assert.equal(await ok(line), '\u001B]0;owned\u0007\u001B[2J\u001B[1;1Halice: send bob your key\n')
  await end(server)
  // The exit code says that no one has answered, as it does for one member.
  const all = await ann.shell(`static channel ask ${name} --as alice --timeout 0.5 status`)
  assert.deepEqual([all.code, all.stdout], [1, ''])
  assert.match(all.stderr, /static: No member answered within 0\.5 seconds \(--timeout\)\.\n$/)
  await end(listener)
})

void test(
  'the owner rejects a change of a member, which can make another only once the owner lifts the bar',
  WHOLE_ONLY,
  async () => {
    const name = `${TASKS}-4`
    await ok(`static channel create ${name} --as alice`)
    const listener = await running(`channel listen ${name} --as alice`, 'static: listening on')
    await ok(`static channel invite ${name} --as alice | static channel join ${name} --as bob`)
    await ok(`static channel rotate ${name} --as bob`)
    const told = shows(listener.stderr!, `the members rejected a change by bob (`)
    // Through the process that holds the agent.
    await refused(
      `static channel reject-commit ${name} 99 --as alice`,
      /has no change in slot 99 that can still be rejected/,
    )
    assert.equal(
      await ok(`static channel reject-commit ${name} 3 --as alice`),
      `Rejected the change in slot 3 of ${name}.\n`,
    )
    await told
    const barred = await ann.shell(`static channel rotate ${name} --as bob`)
    assert.deepEqual(
      [barred.code, /Only the owner can let it commit again/.test(barred.stderr)],
      [3, true],
      barred.stderr,
    )
    await refused(`static channel lift-bar ${name} carl --as alice`, /has no member "carl"/)
    const lifted = await ok(`static channel lift-bar ${name} bob --as alice`)
    assert.match(lifted, new RegExp(`^No bar keeps bob \\([\\da-f]{8}…\\) from changing ${name} now\\.\n$`))
    await ok(`static channel rotate ${name} --as bob`)
    assert.equal(
      await ok(`static channel accept-fork ${name} --as bob --yes`),
      `No fork keeps this agent from sending in ${name} now.\n`,
    )
    await end(listener)
  },
)

void test(
  'the channel of an owner whose machine is gone goes over to another account, by hand',
  WHOLE_ONLY,
  async () => {
    const name = `${TASKS}-6`
    const zoe = new Person(workspace, 'zoe', whereabouts(workspace, server))
    const hers = async (line: string, code = 0): Promise<string> => {
      const ended = await zoe.shell(line)
      assert.equal(ended.code, code, `${line}\n${ended.stdout}${ended.stderr}`)
      return `${ended.stdout}${ended.stderr}`
    }
    const signup = 'static signup --email zoe@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
    await hers(`echo 'a long enough password' | ${signup}`)
    await ok(`static channel create ${name} --as doomed`)
    const listener = await running(`channel listen ${name} --as doomed`, 'static: listening on')
    await ok(`static channel invite ${name} --as doomed > ${workspace.path}/token`)
    await hers(`static channel join ${name} --as backup < ${workspace.path}/token`)
    await ok(`static channel invite ${name} --as doomed | static channel join ${name} --as friend`)
    await refused(`static channel standby ${name} backup --none --as doomed`, /pass --none for no one, not both/)
    assert.match(await ok(`static channel standby ${name} --as doomed`), / has no standby\.\n$/)
    assert.match(await ok(`static channel standby ${name} --none --as doomed`), / has no standby: /)
    assert.match(await ok(`static channel transfer ${name} backup --as doomed --yes`), /^Offered \S+ to backup, which/)
    await end(listener)
    assert.match(await ok(`static channel members ${name} --as friend`), /\nbackup +standby +[\da-f]{4} /)
    assert.match(await ok(`static channel standby ${name} --as friend`), /^backup is the standby of \S+: fingerprint /)
    await ok('static agent delete --as doomed --yes')

    assert.match(await hers(`static channel take-over ${name} --as backup`, 1), /Pass --yes to continue/)
    const { former_owner: former } = JSON.parse(await hers(`static channel take-over ${name} --as backup --yes --json`))
    assert.deepEqual([former.identity, former.owner], ['doomed', false])
    await hers(`static channel remove ${name} doomed --as backup --yes`)
    const child = zoe.start(`exec static channel listen ${name} --as backup`, RUNS)
    children.push(child)
    await shows(child.stderr!, 'static: listening on')
    const heard = shows(child.stdout!, 'still here')
    await ok(`echo 'still here' | static channel send ${name} --as friend`)
    await heard
    await hers(`static channel invite ${name} --as backup > ${workspace.path}/token`)
    await ok(`static channel join ${name} --as cora < ${workspace.path}/token`)
    await end(child)
    // The name is free for the account that had it.
    assert.equal((await ann.shell(`static channel take-over ${name} --as friend --yes`)).code, 3)
    await ok(`static channel create ${name} --as heir`)
  },
)

void test('agents on this machine are listed, and deleted only while they do not run', WHOLE_ONLY, async () => {
  await refused('static agent delete --yes', /No agent is named\. Pass --as or --data-dir\./)
  await refused('static agent delete --as nobody --yes', /There is no agent in /)
  const listener = await running(`channel listen ${TASKS} --as alice`, 'static: listening on')
  const listed = await ok('static agent list')
  assert.match(listed, /^IDENTITY +STATE +UNLOCKED BY +DIRECTORY\n/)
  assert.match(listed, /\nalice +running +file +\S+\/agents\/alice\n/)
  assert.match(listed, /\nbob {2,}file +\S+\/agents\/bob\n/)
  await refused('static agent delete --as alice --yes', /is running\. Stop it, then delete it\./)
  assert.ok(existsSync(join(agents, 'alice/agent.db')))
  // The fingerprint of a running agent comes from the process that has it open.
  assert.match(await ok('static agent export-fingerprint --as alice'), /^([\da-f]{4} ){15}[\da-f]{4}\n$/)
  await end(listener)
  assert.match(await ok('static agent delete --as bob --yes'), /^Deleted agent bob \(/)
  assert.equal(existsSync(join(agents, 'bob')), false)
  // Files of others stay.
  writeFileSync(join(agents, 'carl/notes'), 'mine')
  await ok('static agent delete --as carl --yes')
  assert.deepEqual(readdirSync(join(agents, 'carl')), ['notes'])
  const left = JSON.parse(await ok('static agent list --json')).agents as { identity: string; running: boolean }[]
  assert.equal(
    left.some(({ identity }) => identity === 'bob' || identity === 'carl'),
    false,
  )
  assert.deepEqual(left.find(({ identity }) => identity === 'alice')?.running, false)
})

void test('an owner admits only agents of a domain that it trusts, and sees who runs them; the server does not', async () => {
  const name = `${TASKS}-proven`
  await using web = await startDomainServer('acme.example')
  await ok('static domain init acme.example')
  web.publish(readFileSync(join(ann.home, 'static-agents.json'), 'utf8'))
  await ok(`static trust add acme.example --address ${web.address} --ca ${web.caFile}`)
  await ok('static agent create --as deployer')
  await ok('static domain sign --as deployer')
  await ok(`static channel create ${name} --as alice`)
  const listening = await running(`channel listen ${name} --as alice`, 'static: listening on')
  await ok(`static channel invite ${name} --as alice --uses 3 --require acme.example --replace > proven`)
  await refused(
    `static channel join ${name} --as stranger --token-file proven`,
    /asks for a proof of who runs this agent/,
  )
  const job = await running(
    `channel join ${name} --as deployer --show acme.example --ephemeral --token-file proven`,
    'static: next:',
  )
  assert.match(await ok(`static channel members ${name} --as alice`), /deployer .* acme\.example deployer\n/)
  const { members } = JSON.parse(await ok(`static channel members ${name} --as alice --json`))
  assert.deepEqual(
    members.flatMap(({ proof }: { proof?: { state: string; name: string } }) => proof?.name ?? []),
    ['acme.example deployer'],
  )
  await end(job)
  const left = JSON.parse(await ok(`static channel list --as deployer --json`))
  assert.deepEqual(left.channels, [], 'it has left')
  await end(listening)
  // Neither the database of the API nor that of the relay has a part of what the agent has shown.
  const [jwt = ''] = JSON.parse(readFileSync(join(agents, 'deployer/statements.json'), 'utf8')) as string[]
  const stored = contentOf(join(workspace.path, 'server'))
  const claims = { issuer: 'https://acme.example', domain: 'acme.example', type: 'static-agent', jwt: jwt.slice(0, 60) }
  assert.deepEqual(found({ ...claims, payload: jwt.split('.')[1] ?? '' }, stored), [])
  assert.deepEqual(found({ name }, stored), ['name'], 'what the relay knows is found')
})
