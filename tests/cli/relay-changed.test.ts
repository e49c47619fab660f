/** A relay that lost its database: agents are told so, accept exactly the relay that they were shown, and go on. */
import assert from 'node:assert/strict'
import { type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Server, startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { eventually } from '../support/agents.ts'
import { type Ended, Person, shows, whereabouts } from './support.ts'

const workspace = await makeWorkspace()
const dataDir = join(workspace.path, 'server')

async function start(before?: Server): Promise<Server> {
  return await startServer({
    workspace,
    dataDir,
    command: 'up',
    settings: { argon2: QUICK['argon2'] },
    logLevel: 'silent',
    ...(before && { port: Number(new URL(before.url).port), relay: before.relay }),
  })
}

let server = await start()
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await server.end('SIGTERM')
  workspace[Symbol.dispose]()
})

const where = whereabouts(workspace, server)
const ann = new Person(workspace, 'ann', where)
const ROUTING = 'acme/support/routing'
const OTHER_ID = 'ab'.repeat(32)

async function ok(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

function failure({ code, stderr }: Ended): { code: number | null; error: { code: string; message: string } } {
  return { code, ...JSON.parse(stderr) }
}

test('a relay that lost its database is accepted by the id that was shown, and nothing received is lost', async () => {
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(`echo 'a long enough password' | ${signup}`)
  await ok(`static channel create ${ROUTING} --as alice`)
  const listening = ann.start(`exec static channel listen ${ROUTING} --as alice`)
  children.push(listening)
  await shows(listening.stderr!, 'static: listening on')
  await ok(`static channel invite ${ROUTING} --as alice | static channel join ${ROUTING} --as bob`)
  await ok(`static channel send ${ROUTING} --as alice hello bob`)
  // Bob has fetched the message and has not read it. On a busy machine that may take longer than the command waits.
  await eventually(() => ok(`static channel verify ${ROUTING} --as bob`))
  const ended = once(listening, 'exit')
  listening.kill('SIGTERM')
  await ended
  assert.match(await ok('static doctor'), /^ok {4}known relay {8}the same as before, for alice, bob$/m)

  await server.end('SIGTERM')
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(dataDir, `relay.sqlite${suffix}`), { force: true })
  server = await start(server)

  // It is told, with both ids, and not to be retried.
  const told = failure(await ann.shell(`static channel list --as bob --json`))
  assert.deepEqual([told.code, told.error.code], [1, 'relay_changed'])
  const [known, answering] = told.error.message.match(/[0-9a-f]{64}/g) ?? []
  assert.ok(known && answering && known !== answering, told.error.message)
  const doctor = await ann.shell('static doctor')
  assert.equal(doctor.code, 1)
  assert.match(doctor.stdout, new RegExp(`^fix {3}known relay .*alice, bob cannot connect.*${answering} answers`, 'm'))

  // Not without being asked, not without the id, and not another one.
  const accept = 'static agent accept-relay --as bob'
  assert.match((await ann.shell(accept)).stderr, /Not a terminal, so I cannot ask/)
  assert.match((await ann.shell(`${accept} --yes`)).stderr, /the id of the relay is required/)
  const wrong = failure(await ann.shell(`${accept} ${OTHER_ID} --yes --json`))
  assert.match(wrong.error.message, new RegExp(`^Relay ${answering} answers, not ${OTHER_ID}\\. Nothing was changed`))
  assert.equal((await ann.terminal(accept, [['[y/N]', 'n\r']])).code, 1)
  assert.equal(failure(await ann.shell(`static channel list --as bob --json`)).error.code, 'relay_changed')

  const shown = await ann.terminal(accept, [['[y/N]', 'y\r']])
  assert.equal(shown.code, 0, shown.stdout)
  for (const words of [`known:     ${known}`, `answering: ${answering}`, `Accepted relay ${answering}.`, ROUTING])
    assert.ok(shown.stdout.includes(words), `${words} in ${shown.stdout}`)
  assert.match(shown.stdout, new RegExp(`Lost with the old relay: ${ROUTING}\\.`))
  assert.equal(await ok(`static channel listen ${ROUTING} --as bob --count 1`), 'hello bob\n')
  assert.match(await ok(accept), /nothing to accept/)

  // A script passes the id; the name is free again.
  const json = JSON.parse(await ok(`static agent accept-relay ${answering} --as alice --yes --json`))
  assert.deepEqual(json, { changed: true, name: 'localhost', known, answering, channels_lost: [ROUTING] })
  await ok(`static channel create ${ROUTING} --as alice`)
})
