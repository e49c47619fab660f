/** The programs of `examples`, as their first lines say, on a real server with an account. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, watch } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import type { StaticChannelManager } from '@static/sdk'
import { quietPort } from '@static/testkit/ports'
import { shows } from '../cli/support.ts'
import { Place } from '../mcp/support.ts'
import { PYTHON } from '../python/installed.ts'

const ROOT = join(import.meta.dirname, '../..')
const EXAMPLES = join(ROOT, 'examples')
const place = await Place.open()
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await place[Symbol.asyncDispose]()
})
const { env } = place.command('nobody')

function start(file: string, args: readonly string[], more: Readonly<Record<string, string>> = {}): ChildProcess {
  const program = file.endsWith('.ts') ? [process.execPath, join(EXAMPLES, file)] : [PYTHON, '-B', file]
  const [command = '', ...words] = [...program, ...args]
  const child = spawn(command, words, { cwd: place.workspace.path, env: { ...env, ...more } })
  children.push(child)
  return child
}

/** Runs a program to its end. */
async function run(file: string, ...args: readonly string[]): Promise<string> {
  const child = start(file, args)
  const ended = once(child, 'close')
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!)])
  assert.deepEqual(await ended, [0, null], stderr)
  assert.equal(stderr, '')
  return stdout
}

test('a planner hands out tasks and gets typed results; what does not fit is refused', async () => {
  const printed = await run('planner.ts')
  const results = ['task 0: 4 words', 'task 1: 6 words', 'task 2: 0 words', 'task 3: 2 words']
  assert.equal(printed, [...results, 'refused: invalid_request', ''].join('\n'))
})

test("a coding agent asks another company's, as a guest, and gets what the documentation says", async () => {
  const printed = await run('coding-agents.ts')
  const [answered = '', refused = '', end] = printed.split('\n')
  assert.equal(answered, '// GET /v2/orders/{id}')
  assert.match(refused, /^\/\/ .*The documentation of Acme does not say that\./)
  assert.equal(end, '')
})

test('a worker that is killed while it works continues: each message once, and the same agent', async () => {
  const name = 'acme/examples/worker'
  await using owner: StaticChannelManager = await place.agent('planner')
  await owner.create(name)
  const link = place.workspace.file('link', `${await owner.inviteLink(name)}\n`)
  const results = place.workspace.directory('results')
  const data = join(place.workspace.path, 'worker')
  const { STATIC_API_KEY, STATIC_RELAY, STATIC_CA, ...without } = env
  assert.ok(STATIC_API_KEY && STATIC_RELAY && STATIC_CA, 'the worker gets none of these')
  const work = (): ChildProcess => {
    const words = [join(EXAMPLES, 'worker.ts'), link, results]
    const child = spawn(process.execPath, words, { env: { ...without, STATIC_DATA_DIR: data } })
    children.push(child)
    return child
  }
  /** Waits until so many results are on disk. */
  const finished = async (count: number): Promise<void> => {
    const signal = AbortSignal.timeout(60_000)
    const watcher = watch(results, { signal })
    const done = (): number => readdirSync(results).filter((file) => file.endsWith('.txt')).length
    try {
      while (done() < count) await once(watcher, 'change', { signal })
    } finally {
      watcher.close()
    }
  }
  const sent: string[] = []
  const send = async (): Promise<void> => {
    const order = `order ${sent.length + 1}`
    await owner.send(name, order)
    sent.push(order)
  }

  let worker = work()
  await shows(worker.stdout!, `handling messages of ${name}`)
  const members = (): readonly string[] =>
    owner.client
      .channel(name)
      .members()
      .map(({ agentId }) => agentId)
  const before = members()
  for (let killed = 0; killed < 3; killed++) {
    for (let count = 0; count < 5; count++) await send()
    await finished(sent.length - 2)
    const ended = once(worker, 'exit')
    worker.kill('SIGKILL')
    await ended
    await send()
    worker = work()
    await finished(sent.length)
  }
  const written = readdirSync(results).map((file) => readFileSync(join(results, file), 'utf8'))
  assert.deepEqual(written.sort(), sent.map((order) => order.toUpperCase()).sort())
  assert.deepEqual([members(), before.length], [before, 2])
  const stopped = once(worker, 'exit')
  worker.kill('SIGTERM')
  assert.deepEqual(await stopped, [0, null])
})

test('a deploy that waits for two of three people: killed meanwhile, it waits for the same approval', async () => {
  const name = 'acme/examples/deploys'
  await using ada = await place.agent('ada')
  await place.channel(ada, name, 'ben', 'cy', 'deployer')
  await using ben = await place.agent('ben')
  const plan = '{"deploy":"1.4.2"}'
  const deploy = (): ChildProcess => {
    return start('deploy.ts', [name, plan, 'ada,ben,cy'], { STATIC_DATA_DIR: place.directory('deployer') })
  }
  const asked = async (): Promise<void> => {
    for await (const { type } of ben.client.events()) if (type === 'approval_requested') return
  }
  const isAsked = asked()
  const first = deploy()
  await isAsked
  const dead = once(first, 'exit')
  first.kill('SIGKILL')
  await dead
  const second = deploy()
  const [stdout, ended] = [text(second.stdout!), once(second, 'exit')]
  for (const { client } of [ada, ben]) {
    const [approval, ...others] = client.channel(name).approvals()
    assert.deepEqual([Buffer.from(approval?.action ?? '').toString(), others.length], [plan, 0])
    await approval?.decide('approve')
  }
  assert.deepEqual(await ended, [0, null])
  assert.equal(await stdout, `deploying ${plan}\n`)

  // What was denied once may be asked again.
  for (let round = 0; round < 2; round++) {
    const isAskedAgain = asked()
    const next = deploy()
    const over = once(next, 'exit')
    await Promise.race([isAskedAgain, over.then(() => assert.fail('nobody was asked'))])
    for (const { client } of [ada, ben]) {
      await client.channel(name).catchUp()
      const open = client.channel(name).approvals()
      await open.find(({ state }) => state === 'pending')?.decide('deny')
    }
    assert.deepEqual(await over, [1, null])
  }
})

const hasSystemd = existsSync('/usr/bin/systemd-analyze')
test("the worker's unit passes the checks of systemd", { skip: !hasSystemd && 'systemd is not installed' }, () => {
  const unit = readFileSync(join(EXAMPLES, 'worker.service'), 'utf8')
  const file = place.workspace.file('worker.service', unit.replace('/usr/bin/node', process.execPath))
  for (const words of [['verify'], ['security', '--offline=true', '--threshold=30']]) {
    const { status, stdout, stderr } = spawnSync('systemd-analyze', [...words, file], { encoding: 'utf8' })
    assert.equal(status, 0, stdout + stderr)
  }
})

test('a receiver of webhooks takes what is signed, and nothing else', async () => {
  const name = 'acme/examples/webhook'
  await using owner = await place.agent('sender')
  await place.channel(owner, name, 'hooked')
  const secret = 'a secret of more than enough characters'
  const file = place.workspace.file('secret', `${secret}\n`)
  const port = await quietPort()
  const url = `http://localhost:${port}`
  const receiver = start('webhook.ts', [file, String(port)])
  await shows(receiver.stdout!, 'waiting on port')
  const heard = shows(receiver.stdout!, 'sender: order 4711\n')
  const words = ['listen', name, '--webhook', url, '--webhook-secret-file', file, '--webhook-payload']
  const listening = place.command('hooked', 'channel', ...words)
  children.push(spawn(listening.command, listening.args, { env: listening.env }))
  await owner.send(name, 'order 4711')
  await heard

  const body = JSON.stringify({ message_id: 'a', sender: { identity: 'mallory' }, payload: '' })
  const post = async (time: number, key: string, sent = body): Promise<number> => {
    const signature = createHmac('sha256', key).update(`${time}.${body}`).digest('hex')
    const headers = { 'static-signature': `t=${time},v1=${signature}` }
    return (await fetch(url, { method: 'POST', headers, body: sent })).status
  }
  const now = Math.floor(Date.now() / 1000)
  assert.equal(await post(now, secret), 204)
  assert.equal(await post(now, 'another secret'), 401)
  assert.equal(await post(now, secret, body.replace('mallory', 'sender')), 401)
  assert.equal(await post(now - 3600, secret), 401)
  assert.equal((await fetch(url, { method: 'POST', body })).status, 401)
  assert.equal((await fetch(url, { method: 'POST', body: 'a'.repeat(500_000) })).status, 413)
})

const hasFastApi = spawnSync(PYTHON, ['-c', 'import fastapi, uvicorn']).status === 0
const skip = !hasFastApi && 'FastAPI is not installed for this Python: pip install fastapi uvicorn'
test('a web service with FastAPI asks an agent, also after a restart', { skip }, async () => {
  const port = await quietPort()
  const more = {
    EXAMPLE_HOME: join(place.workspace.path, 'fastapi'),
    PYTHONPATH: [join(ROOT, 'python'), EXAMPLES, process.env['PYTHONPATH'] ?? ''].join(':'),
    STATIC_NODE: process.execPath,
  }
  const post = async (body: unknown): Promise<Response> => {
    const headers = { 'content-type': 'application/json' }
    return await fetch(`http://localhost:${port}/questions`, { method: 'POST', headers, body: JSON.stringify(body) })
  }
  for (const question of ['Where is order 4711?', 'And order 4712?']) {
    const service = start('-m', ['uvicorn', 'fastapi_app:app', '--port', String(port)], more)
    await shows(service.stderr!, 'Uvicorn running')
    const answer = await post({ text: question })
    assert.deepEqual(
      [answer.status, await answer.json()],
      [200, { answer: `${question} It is on its way.`, from: 'clerk' }],
    )
    assert.equal((await post({ text: '' })).status, 422)
    const ended = once(service, 'exit')
    service.kill('SIGTERM')
    await ended
  }
})
