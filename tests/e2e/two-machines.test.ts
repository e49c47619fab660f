/**
 * The story of the README on two machines, which share nothing but an invite link. The machines are network namespaces
 * with a cable between them; each has a home directory of its own.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { Person, shows } from '../cli/support.ts'
import { snippetsOf } from '../docs/markdown.ts'

const OWNER_IP = '10.77.0.1'
const GUEST_IP = '10.77.0.2'
const ROUTING = 'acme/support/routing'
const [OWNER, GUEST] = [`static-o-${process.pid}`, `static-g-${process.pid}`]
/** Servers and listeners run until the test stops them; this is only an upper bound. */
const LONGEST = 240_000

const workspace = await makeWorkspace()
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGTERM')
    await ended
  }
  for (const namespace of [OWNER, GUEST]) spawnSync('ip', ['netns', 'delete', namespace], { stdio: 'ignore' })
  workspace[Symbol.dispose]()
})

/** Makes the two machines and the cable; returns why it cannot. */
function connectMachines(): string | undefined {
  const lines = [
    `netns add ${OWNER}`,
    `netns add ${GUEST}`,
    `-n ${OWNER} link add cable type veth peer name cable netns ${GUEST}`,
    `-n ${OWNER} address add ${OWNER_IP}/24 dev cable`,
    `-n ${GUEST} address add ${GUEST_IP}/24 dev cable`,
    ...[OWNER, GUEST].flatMap((name) => [`-n ${name} link set lo up`, `-n ${name} link set cable up`]),
  ]
  for (const line of lines) {
    const { status, stderr, error } = spawnSync('ip', line.split(' '), { encoding: 'utf8' })
    if (status !== 0) return `network namespaces cannot be made here: ip ${line}: ${error?.message ?? stderr.trim()}`
  }
  return undefined
}

/** A person at one of the machines. */
class User extends Person {
  readonly #namespace: string

  constructor(name: string, namespace: string) {
    super(workspace, name)
    this.#namespace = namespace
  }

  override start(line: string, timeout?: number): ChildProcess {
    const quoted = `'${line.replaceAll("'", String.raw`'\''`)}'`
    return super.start(`exec ip netns exec ${this.#namespace} bash -c ${quoted}`, timeout)
  }

  async ok(line: string): Promise<string> {
    const { code, stdout, stderr } = await this.shell(line)
    assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
    return stdout
  }
}

/** The lines of the README for other machines, as this test can run them. */
function storyOf(index: 4 | 5): string {
  const snippet = snippetsOf('README.md').find(({ name }) => name === `README.md#Two agents talk sh ${index}`)
  assert.ok(snippet, 'the README has the story')
  return snippet.code.replaceAll('npx static', 'static').replaceAll('192.0.2.1', OWNER_IP)
}

test("the README's story on two machines that share nothing but the link", async (t) => {
  const impossible = connectMachines()
  if (impossible !== undefined) return t.skip(impossible)
  const [alice, carol] = [new User('owner', OWNER), new User('guest', GUEST)]

  const server = alice.start('exec static up --host 0.0.0.0 --log-level silent', LONGEST)
  children.push(server)
  await shows(server.stdout!, '\nready\n')
  const signup = 'static signup --email alice@example.com --password-stdin --relay quic://localhost:4433'
  await alice.ok(`echo 'a long enough password' | ${signup}`)
  await alice.ok(`static channel create ${ROUTING} --as alice`)
  const listener = alice.start(`exec static channel listen ${ROUTING} --as alice`, LONGEST)
  children.push(listener)
  await shows(listener.stderr!, 'static: listening on')

  // A link with the address that alice uses herself is of no use to others, which she is told.
  const local = await alice.shell(`static channel invite ${ROUTING} --as alice --link`)
  assert.match(local.stderr, /points to quic:\/\/localhost:4433, which only this machine can reach/)
  const made = await alice.shell(storyOf(4))
  assert.doesNotMatch(made.stderr, /this machine only/)
  const link = readFileSync(join(alice.home, 'link'), 'utf8')
  assert.match(link, /^static:\/\/[\w-]+\n$/)

  const told = await carol.shell('static channel join --as carol < /dev/null')
  assert.equal(told.code, 1, told.stderr)
  writeFileSync(join(carol.home, 'link'), link, { mode: 0o600 })
  const heard = shows(listener.stdout!, 'hello from carol\n')
  const joined = await carol.ok(storyOf(5))
  assert.match(joined, new RegExp(`^Joined ${ROUTING} \\(2 members\\)`))
  await heard

  // What is wrong with a link is said.
  const used = await carol.shell('static channel join --as erin < link')
  assert.match(used.stderr, /no uses left|used up/)
  const cut = await carol.shell('head -c 200 link | static channel join --as erin')
  assert.match(cut.stderr, /The invite link is damaged or incomplete\. Copy all of it again\./)

  // Her agent remembers relay and authority; nothing names them any more.
  await alice.ok(`static channel send ${ROUTING} --as alice hello carol`)
  assert.equal(await carol.ok(`static channel listen ${ROUTING} --as carol --count 1`), 'hello carol\n')
})
