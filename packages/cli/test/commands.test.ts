import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import { Admin, openStore } from '@static/api'
import { MAIN } from '@static/testkit/server/process'

const home = mkdtempSync(join(tmpdir(), 'static-cli-'))
after(() => rmSync(home, { recursive: true, force: true }))
const { PATH, NODE_COMPILE_CACHE } = process.env
const env = { PATH, NODE_COMPILE_CACHE, HOME: home, NO_COLOR: '1' }

/** Runs `static` until it exits. */
async function run(...words: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const texts = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (texts.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (texts.stderr += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number]
  return { code, ...texts }
}

describe('static', () => {
  test('help names the commands, the exit codes and an example', async () => {
    const { code, stdout, stderr } = await run('--help')
    assert.deepEqual([code, stderr], [0, ''])
    for (const word of ['up', 'api', 'admin', 'Exit codes:\n  0    done\n']) assert.ok(stdout.includes(word), word)
    assert.match((await run('up', '--help')).stdout, /Examples:\n {2}\$ static up/)
  })

  for (const words of [
    ['nonsense'],
    ['up', '--nonsense'],
    ['up', '--api-port', 'x'],
    ['up', '--quic-endpoints', '0'],
    ['admin', 'plan', 'x', 'gold'],
    ['admin', 'plan'],
  ]) {
    test(`usage error: static ${words.join(' ')}`, async () => {
      const { code, stdout, stderr } = await run(...words)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^error: .*\n\(run with --help for usage\)\n$/s)
    })
  }

  for (const [sentence, ...words] of [
    [
      'Only --cert is given. Pass both --cert and --key, or neither.',
      'up',
      '--cert',
      'x.pem',
      '--data-dir',
      join(home, 'a'),
    ],
    [
      'Cannot read file /nowhere/x.pem. Check that it exists and is readable.',
      'up',
      '--cert',
      '/nowhere/x.pem',
      '--key',
      'y',
      '--data-dir',
      join(home, 'a'),
    ],
    [
      '--cert and --key are required. Only `static up` creates its own certificate.',
      'api',
      '--data-dir',
      join(home, 'a'),
    ],
    [
      'Cannot read file /nowhere/s.json. Check that it exists and is readable.',
      'up',
      '--settings',
      '/nowhere/s.json',
      '--data-dir',
      join(home, 'a'),
    ],
    [
      'Cannot create the data directory /proc/nowhere. Choose another one with --data-dir.',
      'up',
      '--data-dir',
      '/proc/nowhere',
    ],
    [`${MAIN} cannot be the data directory: it, or one of its parents, is a file.`, 'up', '--data-dir', MAIN],
  ] as const) {
    test(`error message: ${sentence}`, async () => {
      assert.deepEqual(await run(...words), { code: 1, stdout: '', stderr: `static: ${sentence}\n` })
    })
  }
})

describe('static up and static admin', () => {
  const data = join(home, 'data')
  let child: ReturnType<typeof spawn>
  let ready: { api_url: string; ca: string }
  let account: string
  before(async () => {
    const words = [
      'up',
      '--data-dir',
      data,
      '--api-port',
      '0',
      '--grpc-port',
      '0',
      '--quic-port',
      '0',
      '--files-port',
      '0',
      '--json',
      '--log-level',
      'error',
    ]
    child = spawn(process.execPath, [MAIN, ...words], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
    ready = JSON.parse(line)
    const store = await openStore(join(data, 'api.sqlite'))
    account = '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'
    const person = {
      id: account,
      email: 'ann@example.com',
      name: 'Ann',
      passwordHash: '',
      plan: 'free',
      status: 'active',
      createdAt: 1,
    } as const
    assert.equal(await store.accounts.create(person, { entries: [] }), 'created')
    await store.close()
  })
  after(async () => {
    child.kill('SIGTERM')
    assert.deepEqual(await once(child, 'exit'), [0, null])
  })

  test('one line of JSON has all addresses; only the owner can access secrets', () => {
    assert.match(ready.api_url, /^https:\/\/localhost:\d+$/)
    assert.equal(ready.ca, join(data, 'ca.pem'))
    const open = readdirSync(data).filter((name) => (statSync(join(data, name)).mode & 0o077) !== 0)
    assert.deepEqual(open.sort(), ['ca.pem', 'quic.pem', 'server.pem'])
    assert.equal(statSync(data).mode & 0o777, 0o700)
  })

  test('a port in use and a broken authority give a clear error, and nothing starts', async () => {
    const ports = ['--grpc-port', '0', '--quic-port', '0', '--no-files', '--log-level', 'error']
    const { port } = new URL(ready.api_url)
    const taken = await run('up', '--data-dir', join(home, 'taken'), '--api-port', port, ...ports)
    const sentence = `static: Cannot listen on localhost port ${port}: it is in use by another program. Stop that program, or choose another port (see \`--help\`).\n`
    assert.deepEqual(taken, { code: 1, stdout: '', stderr: sentence })
    const broken = join(home, 'broken')
    cpSync(data, broken, { recursive: true })
    writeFileSync(join(broken, 'ca.pem'), 'nonsense')
    const refused = await run('up', '--data-dir', broken, '--api-port', '0', ...ports)
    assert.deepEqual([refused.code, refused.stdout], [1, ''])
    assert.match(refused.stderr, /^static: \S+ca\.pem is not a certificate\. Restore it, or remove .*\n$/)
    writeFileSync(join(broken, 'ca.pem'), readFileSync(join(data, 'ca.pem')))
    writeFileSync(join(broken, 'ca.key'), 'nonsense', { mode: 0o600 })
    const keyless = await run('up', '--data-dir', broken, '--api-port', '0', ...ports)
    assert.match(keyless.stderr, /ca\.key is not a private key\. .* remove \S+ca\.pem and \S+ca\.key to create/)
  })

  test('a second start finds its data and suggests the next commands', async () => {
    const again = join(home, 'again')
    cpSync(data, again, { recursive: true })
    const words = ['--api-port', '0', '--grpc-port', '0', '--quic-port', '0', '--no-files', '--log-level', 'error']
    const second = spawn(process.execPath, [MAIN, 'up', '--data-dir', again, ...words], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let shown = ''
    for await (const line of createInterface({ input: second.stdout })) {
      shown += `${line}\n`
      if (line === 'ready') break
    }
    const url = /API +(https:\/\/localhost:\d+)\n/.exec(shown)?.[1] ?? ''
    assert.ok(shown.includes(`\n  console  ${url}/console\n`), shown)
    assert.ok(shown.includes(`\n  CA       ${again}/ca.pem\n`), shown)
    assert.ok(shown.includes(`\n  static signup --api-url ${url} --ca ${again}/ca.pem\n`), shown)
    assert.match(shown, /\n {2}static channel create \S+\n {2}static channel listen \S+\n\nready\n$/)
    const found = await run('admin', 'suspend', account, '--data-dir', again, '--yes', '--json')
    assert.equal(JSON.parse(found.stdout).email, 'ann@example.com')
    second.kill('SIGINT')
    assert.deepEqual(await once(second, 'exit'), [0, null])
  })

  test('an account changes its plan, is suspended and resumed while the server runs', async () => {
    const shown = (plan: string, status: string): string =>
      `${account}  ann@example.com (Ann)  plan ${plan}, ${status}\n`
    const flags = ['--data-dir', data, '--yes']
    assert.deepEqual(await run('admin', 'plan', account, 'team', ...flags), {
      code: 0,
      stdout: shown('team', 'active'),
      stderr: '',
    })
    assert.equal((await run('admin', 'suspend', account, ...flags)).stdout, shown('team', 'suspended'))
    const { stdout } = await run('admin', 'resume', account, ...flags, '--json')
    assert.equal(JSON.parse(stdout).status, 'active')
    const store = await openStore(join(data, 'api.sqlite'))
    assert.equal((await new Admin(store).inspect(account)).plan, 'team')
    await store.close()
  })

  test('plain HTTP works on loopback only, with a warning at any log level', async () => {
    const words = [
      'api',
      '--insecure-http',
      '--data-dir',
      join(home, 'plain'),
      '--api-port',
      '0',
      '--log-level',
      'silent',
    ]
    const refused = await run(...words, '--host', '0.0.0.0')
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /static: Plain HTTP is for loopback only/)
    const plain = spawn(process.execPath, [MAIN, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const [line] = (await once(createInterface({ input: plain.stderr }), 'line')) as [string]
    assert.equal(line, 'static: serving plain HTTP: for development on this machine only.')
    const ended = once(plain, 'exit')
    const [first] = (await once(createInterface({ input: plain.stdout }), 'line')) as [string]
    assert.match(first, /^API http:\/\/localhost:\d+$/)
    plain.kill('SIGINT')
    assert.deepEqual(await ended, [0, null])
  })

  test('the server survives the loss of its log reader', async () => {
    const words = ['api', '--insecure-http', '--data-dir', join(home, 'plain'), '--api-port', '0', '--json']
    const server = spawn(process.execPath, [MAIN, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const ended = once(server, 'exit')
    const [line] = (await once(createInterface({ input: server.stdout }), 'line')) as [string]
    server.stderr.destroy()
    const { api_url: url } = JSON.parse(line) as { api_url: string }
    // Each is logged; more than one batch of lines, so that the first is written before the last is asked.
    for (let asked = 0; asked < 400; asked++) {
      const answer = await fetch(`${url}/v1/keys`)
      assert.equal(answer.status, 401)
      await answer.text()
    }
    server.kill('SIGTERM')
    assert.deepEqual(await ended, [0, null])
  })

  test('migrate reports that the database is up to date', async () => {
    const done = await run('admin', 'migrate', '--data-dir', data)
    assert.deepEqual(done, { code: 0, stdout: 'The database is up to date.\n', stderr: '' })
  })

  test('nothing changes without confirmation, for an unknown account, or in a missing database', async () => {
    const asked = await run('admin', 'suspend', account, '--data-dir', data)
    assert.deepEqual(
      [asked.code, asked.stderr],
      [1, 'static: Not a terminal, so I cannot ask. Pass --yes to continue.\n'],
    )
    const nobody = await run('admin', 'suspend', 'nobody', '--data-dir', data, '--yes')
    assert.deepEqual([nobody.code, nobody.stderr], [1, 'static: There is no such account.\n'])
    const nowhere = await run('admin', 'suspend', account, '--data-dir', join(home, 'nowhere'), '--yes')
    assert.equal(nowhere.code, 1)
    assert.match(nowhere.stderr, /^static: Database .*nowhere\/api\.sqlite does not exist\. Pass/)
  })
})
