/** Two companies on one machine: one says which agents its domain runs, the other decides what it believes. */
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type DomainServer, startDomainServer } from '@static/testkit/issuers/domain'
import { type OidcIssuer, startOidcIssuer } from '@static/testkit/issuers/oidc'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { Person } from './support.ts'

const workspace = await makeWorkspace()
// No relay answers there: none of this needs one.
const env = { STATIC_RELAY: 'quic://localhost:9' }
const acme = new Person(workspace, 'acme', env)
const initech = new Person(workspace, 'initech', env)
let web: DomainServer
let oidc: OidcIssuer

before(async () => {
  ;[web, oidc] = await Promise.all([startDomainServer('acme.example'), startOidcIssuer()])
})
after(async () => {
  await Promise.all([web[Symbol.asyncDispose](), oidc[Symbol.asyncDispose]()])
  workspace[Symbol.dispose]()
})

/** The output of a command that works. */
async function output(person: Person, line: string): Promise<string> {
  const { code, stdout, stderr } = await person.shell(line)
  assert.equal(code, 0, `${line}: ${stderr}`)
  return stdout
}

async function json<Result>(person: Person, line: string): Promise<Result> {
  return JSON.parse(await output(person, `${line} --json`)) as Result
}

/** The message of a command that fails. */
async function failure(person: Person, line: string): Promise<string> {
  const { code, stderr } = await person.shell(line)
  assert.notEqual(code, 0, line)
  return stderr
}

const pinned = (): string => `--address ${web.address} --ca ${web.caFile}`
const upload = ({ home }: Person): void => web.publish(readFileSync(join(home, 'static-agents.json'), 'utf8'))

test('a company makes its key, publishes the file and signs', async () => {
  assert.match(await failure(acme, 'static domain sign --as deployer'), /static domain init DOMAIN/)
  assert.match(await failure(acme, 'static domain init acme'), /"acme" is not a domain/)
  const told = await output(acme, 'static domain init acme.example')
  assert.match(told, /Upload \S+static-agents\.json to https:\/\/acme\.example\/\.well-known\/static-agents\.json/)
  assert.match(await output(acme, 'static domain init acme.example'), /The key of acme\.example exists/)
  const key = join(acme.home, '.local/share/static/domains/acme.example/key.json')
  assert.equal(statSync(key).mode & 0o777, 0o600)
  assert.match(
    await failure(acme, `static domain check acme.example ${pinned()}`),
    /HTTP status 404\. Upload the file there\./,
  )
  upload(acme)
  assert.match(await output(acme, `static domain check acme.example ${pinned()}`), /is right/)
  await output(acme, 'static agent create --as deployer')
  const signed = await json<{ id: string; name: string; agent_id: string }>(acme, 'static domain sign --as deployer')
  assert.equal(signed.name, 'deployer')
  const held = join(acme.home, '.local/share/static/agents/deployer/statements.json')
  assert.equal(statSync(held).mode & 0o777, 0o600)
  const { domains } = await json<{ domains: { statements: { id: string }[] }[] }>(acme, 'static domain list')
  assert.deepEqual(
    domains.map(({ statements }) => statements.map(({ id }) => id)),
    [[signed.id]],
  )
  const { statements } = await json<{ statements: { renewed: boolean }[] }>(acme, 'static domain renew')
  assert.deepEqual(
    statements.map(({ renewed }) => renewed),
    [false],
  )
  chmodSync(key, 0o644)
  assert.match(await failure(acme, 'static domain sign --as deployer'), /chmod 600/)
  chmodSync(key, 0o600)
})

test('a statement is installed where its agent is, and nowhere else', async () => {
  await output(initech, 'static agent create --as buyer')
  const fingerprint = (await output(initech, 'static agent export-fingerprint --as buyer')).trim()
  const sign = `static domain sign --agent "${fingerprint}" --out ${initech.home}/buyer.jwt`
  assert.match(await failure(acme, sign), /pass --name and --out/)
  assert.match(await failure(acme, `${sign} --name "a b"`), /cannot be a name in a statement/)
  await output(acme, `${sign} --name buyer`)
  assert.match(
    await failure(acme, `static agent add-proof ${initech.home}/buyer.jwt --as deployer`),
    /is about another agent/,
  )
  assert.match(
    await output(initech, 'static agent add-proof buyer.jwt --as buyer'),
    /acme\.example says that buyer is its buyer, until/,
  )
  assert.match(await failure(initech, 'static agent add-proof .profile --as buyer'), /Cannot read file/)
  const short = `static domain sign --agent "${fingerprint}" --name buyer --days 5 --out ${initech.home}/short.jwt`
  await output(acme, short)
  await output(initech, 'static agent add-proof short.jwt --as buyer')
  const { stdout } = await initech.shell('static doctor --json')
  const { checks } = JSON.parse(stdout) as {
    readonly checks: readonly { check: string; ok: boolean; detail: string }[]
  }
  assert.match(checks.find(({ check }) => check === 'statements')?.detail ?? '', /acme\.example about buyer ends on/)
  assert.equal(checks.find(({ check }) => check === 'trust')?.detail, 'no issuer of proofs is trusted')
})

test('a stranger trusts the domain, and decides about keys that were all replaced', async () => {
  assert.match(await failure(initech, 'static trust add acme.example'), /out of reach/)
  // Not what Node advises, because nobody starts Node here.
  assert.match(
    await failure(initech, `static trust add acme.example --address ${web.address}`),
    /out of reach: [^;.]*certificate[^;.]*\. Check the name .* takes --address and --ca/,
  )
  assert.match(await failure(initech, 'static trust add github:acme'), /is not OWNER\/REPOSITORY/)
  assert.match(await failure(initech, 'static trust add spiffe:acme.example'), /--bundle FILE/)
  const added = await json<{ keys: string[] }>(initech, `static trust add acme.example ${pinned()}`)
  const { keys } = await json<{ keys: string[] }>(acme, 'static domain init acme.example')
  assert.deepEqual(added.keys, keys)
  await json(
    initech,
    `static trust add oidc:https://idp.example --as buyer --address ${oidc.address} --ca ${oidc.caFile}`,
  )
  // As SPIRE writes it: only keys for JWTs count.
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = publicKey.export({ format: 'jwk' })
  const bundle = {
    keys: [
      { ...jwk, kid: 'one', use: 'jwt-svid' },
      { ...jwk, kid: 'two', use: 'x509-svid' },
    ],
  }
  writeFileSync(join(initech.home, 'bundle.json'), JSON.stringify(bundle))
  const trusted = await json<{ keys: string[] }>(initech, 'static trust add spiffe:acme.example --bundle bundle.json')
  assert.equal(trusted.keys.length, 1)
  const listed = await json<{ roots: { root: string; agents: string[] | null; problem: string | null }[] }>(
    initech,
    'static trust list',
  )
  assert.deepEqual(
    listed.roots.map(({ root, agents, problem }) => [root, agents, problem]),
    [
      ['acme.example', null, null],
      ['oidc:https://idp.example', ['buyer'], null],
      ['spiffe:acme.example', null, null],
    ],
  )
  assert.match(await output(initech, 'static trust accept-keys acme.example'), /There is nothing to accept/)
  const mallory = new Person(workspace, 'mallory', env)
  await output(mallory, 'static domain init acme.example')
  upload(mallory)
  assert.match(
    await failure(acme, `static domain check acme.example ${pinned()}`),
    /is not what this machine has signed/,
  )
  // Also with keys that come in another way.
  writeFileSync(join(initech.home, 'ca.pem'), `${web.ca}\n`)
  for (const way of [pinned(), `--address ${web.address} --ca ca.pem`])
    assert.match(await failure(initech, `static trust add acme.example ${way}`), /replaced all of its keys at once/)
  assert.match(await failure(initech, 'static trust accept-keys acme.example'), /Pass --yes to continue/)
  assert.match(await output(initech, 'static trust list'), /new keys wait for `trust accept-keys`/)
  const accepted = await json<{ changed: boolean; keys: string[] }>(
    initech,
    'static trust accept-keys acme.example --yes',
  )
  assert.ok(accepted.changed && accepted.keys[0] !== keys[0])
  assert.match(await failure(initech, 'static trust remove oidc:https://idp.example --as other'), /not by other alone/)
  await output(initech, 'static trust remove oidc:https://idp.example --as buyer')
  for (const root of ['spiffe:acme.example', 'acme.example']) await output(initech, `static trust remove ${root}`)
  assert.match(await failure(initech, 'static trust remove acme.example'), /is not trusted\. Nothing is\./)
})

test('proofs that a company revokes are in its file', async () => {
  assert.match(await failure(acme, 'static domain revoke'), /either the id of a statement or --all/)
  const { domains } = await json<{ domains: { statements: { id: string }[] }[] }>(acme, 'static domain list')
  const id = domains[0]?.statements[0]?.id ?? ''
  assert.match(await output(acme, `static domain revoke ${id}`), /It counts when you have uploaded/)
  upload(acme)
  const { revoked } = await json<{ revoked: number }>(acme, `static domain check acme.example ${pinned()}`)
  assert.equal(revoked, 1)
  await output(acme, 'static domain revoke --all')
  assert.match(
    await failure(acme, `static domain check acme.example ${pinned()}`),
    /lacks the revocation of all earlier/,
  )
  await output(acme, 'printf "{}" > other.json')
  assert.match(await failure(acme, 'static domain revoke --all --out other.json'), /is not the file of acme\.example/)
  await output(initech, 'static agent delete --as buyer --yes')
  assert.ok(!existsSync(join(initech.home, '.local/share/static/agents/buyer')))
})

test('a company replaces its key, and a stranger is asked nothing', async () => {
  upload(acme)
  await output(initech, `static trust add acme.example ${pinned()}`)
  assert.match(await failure(acme, `static domain rotate acme.example --finish ${pinned()}`), /There is no next key/)
  const begun = await json<{ keys: string[]; next: string }>(acme, 'static domain rotate acme.example')
  assert.ok(begun.keys.includes(begun.next))
  const early = await failure(acme, `static domain rotate acme.example --finish ${pinned()}`)
  assert.match(early, /has not published the next key yet/)
  upload(acme)
  const done = await json<{ keys: string[]; next: null }>(
    acme,
    `static domain rotate acme.example --finish ${pinned()}`,
  )
  assert.deepEqual([done.keys[0], done.next, done.keys.length], [begun.next, null, begun.keys.length])
  upload(acme)
  await output(initech, `static trust add acme.example ${pinned()}`)
  const dropped = await json<{ keys: string[] }>(acme, 'static domain rotate acme.example --drop')
  assert.deepEqual(dropped.keys, [begun.next])
  upload(acme)
  await output(initech, `static trust add acme.example ${pinned()}`)
  await output(acme, `static domain check acme.example ${pinned()}`)
})
