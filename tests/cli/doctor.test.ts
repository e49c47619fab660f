/** `static doctor` names the cause of a problem, and never calls something ok that it did not check. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { CertificateAndKey } from '@static/cli/authority'
import { certificates, newAuthority } from '@static/testkit/certificates'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { Person, shows, whereabouts } from './support.ts'

const workspace = await makeWorkspace()
const dataDir = join(workspace.path, 'server')
const settings = { argon2: QUICK['argon2'] }
const server = await startServer({ workspace, dataDir, command: 'up', settings, logLevel: 'silent' })
after(async () => {
  await server.end('SIGTERM')
  workspace[Symbol.dispose]()
})
const DAY_MS = 86_400_000
const NO_RELAY = 'https://localhost:1'

/** An API that answers every request with the given time. */
async function startApi({ cert, key }: CertificateAndKey, date: Date): Promise<Disposable & { readonly url: string }> {
  const api = createServer({ cert, key }, (_, response) => {
    response.sendDate = false
    response.writeHead(200, { date: date.toUTCString() }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(api, 'listening')
  const { port } = api.address() as AddressInfo
  return { url: `https://localhost:${port}`, [Symbol.dispose]: () => void api.close() }
}

/** What `static doctor` finds, by check. */
async function findings(person: Person, flags: string): Promise<Record<string, [ok: boolean | null, detail: string]>> {
  const { stdout } = await person.shell(`static doctor --json ${flags}`)
  const { checks } = JSON.parse(stdout) as { checks: { check: string; ok: boolean | null; detail: string }[] }
  return Object.fromEntries(checks.map(({ check, ok, detail }) => [check, [ok, detail]]))
}

void test('a suspended account is named as such, and signing in again is not suggested', async () => {
  const sue = new Person(workspace, 'sue', whereabouts(workspace, server))
  const { stdout: signedUp } = await sue.shell(
    `echo 'a long enough password' | static signup --json --password-stdin --email sue@example.com --api-url $API --ca $CA`,
  )
  const { id } = JSON.parse(signedUp) as { id: string }
  const suspended = await sue.shell(`static admin suspend ${id} --yes --data-dir ${dataDir}`)
  assert.equal(suspended.code, 0, suspended.stderr)
  const { stdout } = await sue.shell('static doctor --relay $RELAY | grep "^fix"')
  assert.equal(
    stdout,
    'fix   API key            The account is suspended. Ask the operator of the service why it was suspended.\n',
  )
})

void test('an expired certificate is told from a wrong clock', async () => {
  const past = new Date(Date.now() - 30 * DAY_MS)
  const authority = await newAuthority(() => past)
  const pair = await authority.issue(['localhost'], { days: 10 })
  const ca = join(workspace.path, 'expiring-ca.pem')
  writeFileSync(ca, authority.cert)
  const ken = new Person(workspace, 'ken', { STATIC_API_KEY: `sk_live_${'a'.repeat(43)}` })
  const end = new Date(past.getTime() + 10 * DAY_MS).toISOString().slice(0, 10)
  {
    using api = await startApi(pair, new Date())
    const found = await findings(ken, `--api-url ${api.url} --ca ${ca} --relay ${NO_RELAY}`)
    const what = `The certificate of ${api.url} expired on ${end}. Renew it; \`static up\` renews its own when restarted.`
    assert.deepEqual(found['certificate'], [false, what])
    assert.deepEqual(found['clock'], [true, 'in sync with the API'])
    for (const check of ['ports', 'API', 'API key'])
      assert.deepEqual(found[check], [null, "not checked: the API's certificate is refused"], check)
  }
  using api = await startApi(pair, past)
  const found = await findings(ken, `--api-url ${api.url} --ca ${ca} --relay ${NO_RELAY}`)
  const what = `The certificate of ${api.url} expired on ${end}. It is valid by the API's clock: set the clock of this machine.`
  assert.deepEqual(found['certificate'], [false, what])
  assert.match(found['clock']?.[1] ?? '', /^The clock of this machine is 2592\d{3} s ahead of the API\. Set it/)
})

void test('a clock that differs from the API is named, also while the certificate is valid', async () => {
  const { authority, certificate } = await certificates()
  using api = await startApi(certificate, new Date(Date.now() + 3_600_000))
  const lee = new Person(workspace, 'lee')
  const found = await findings(lee, `--api-url ${api.url} --ca ${authority.path} --relay ${NO_RELAY}`)
  assert.match(found['clock']?.[1] ?? '', /^The clock of this machine is 3\d{3} s behind the API\. Set it/)
  assert.equal(found['certificate']?.[0], true)
})

void test('a check that cannot be made is skipped, not ok', async () => {
  const may = new Person(workspace, 'may', { STATIC_API_KEY: `sk_live_${'a'.repeat(43)}` })
  const { stdout, code } = await may.shell(
    `static doctor --api-url https://localhost:1 --relay ${NO_RELAY} | grep ^skip`,
  )
  assert.equal(code, 0)
  const checks = stdout
    .trim()
    .split('\n')
    .map((line) => line.split(/ {2,}/)[1])
  assert.deepEqual(checks, ['clock', 'certificate', 'API key'])
})

void test('a guest needs no account: its relay is checked, and nothing that it does not use', async () => {
  const kim = new Person(workspace, 'kim', whereabouts(workspace, server))
  const signup = 'static signup --password-stdin --email kim@example.com --api-url $API --ca $CA'
  assert.equal((await kim.shell(`echo 'a long enough password' | ${signup}`)).code, 0)
  assert.equal((await kim.shell('static channel create acme/kim/x --as kim')).code, 0)
  const owner = kim.start('exec static channel listen acme/kim/x --as kim', 60_000)
  await shows(owner.stderr!, 'static: listening on')
  const link = await kim.shell('static channel invite acme/kim/x --as kim --link')
  assert.equal(link.code, 0, link.stderr)
  const guest = new Person(workspace, 'gus', { LINK: link.stdout.trim() })
  const joined = await guest.shell('echo "$LINK" | static channel join --as gus')
  assert.equal(joined.code, 0, joined.stderr)
  owner.kill('SIGTERM')
  await once(owner, 'exit')
  const { code, stdout } = await guest.shell('static doctor')
  assert.equal(code, 0, stdout)
  assert.match(stdout, /^skip +API +not checked: guests use no API$/m)
  assert.match(stdout, /^ok +API key +none is needed: gus is a guest$/m)
  assert.match(stdout, /^ok +relay +quic:\S+ responds$/m)
  assert.match(stdout, /^ok +relay certificate +for localhost, trusted, valid until /m)
  assert.match(stdout, /^skip +files +not checked: the relay takes no files$/m)
  assert.match(stdout, /^ok +known relay +the same as before, for gus$/m)
  // Where an API is named, a missing key is a problem as before.
  const named = await guest.shell(`static doctor --api-url ${server.url} --ca ${join(dataDir, 'ca.pem')}`)
  assert.equal(named.code, 1)
  assert.match(named.stdout, /^fix +API key +You are not signed in\./m)
})

void test('a wrong setting of this machine is named, and starting a server is not suggested', async () => {
  const tom = new Person(workspace, 'tom', { ...whereabouts(workspace, server), STATIC_GRPC_PORT: 'abc' })
  const found = await findings(tom, '--api-url $API --ca $CA --relay $RELAY')
  assert.deepEqual(found['relay'], [false, "`grpcPort` is 'abc'. It must be an integer from 1 to 65535."])
})
