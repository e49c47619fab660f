/** The README's commands, as they stand there, on a fresh home directory. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { startServer } from '../support/server.ts'
import { makeWorkspace } from '../support/workspace.ts'

const readme = readFileSync(resolve(import.meta.dirname, '../../README.md'), 'utf8')

/** The commands of the first shell block under a heading, one text each. */
function commandsUnder(heading: string): string[] {
  const section = readme.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const block = /```sh\n([\s\S]*?)```/.exec(section)?.[1] ?? ''
  return block.split('\n\n').map((text) => text.trim())
}

test('from sign-up to a second key by copying lines', async () => {
  using workspace = await makeWorkspace()
  const home = workspace.directory('home')
  const dataDir = join(home, '.local/share/static/server')
  await using server = await startServer({ workspace, dataDir, command: 'up' })
  const [place = '', signUp = '', keep = '', exchange = '', second = '', ...rest] = commandsUnder('Use')
  assert.deepEqual(rest, [])
  assert.match(keep, /export STATIC_API_KEY=/)

  const here = place.replace('https://localhost:8443', server.url)
  assert.notEqual(here, place)
  const run = (command: string, key = ''): { [name: string]: any } => {
    const env = { PATH: process.env['PATH'], HOME: home, STATIC_API_KEY: key }
    return JSON.parse(execFileSync('bash', ['-c', `${here}\n${command}`], { env, encoding: 'utf8' }))
  }
  const made = run(signUp)
  assert.equal(made['message'], 'account created')
  const { key } = made['api_key']
  assert.equal(run(exchange, key)['token_type'], 'Bearer')
  assert.deepEqual([run(second, key)['name'], run(second, key)['mode']], ['ci', 'test'])
})

test('two agents talk, and a guest joins, by the examples as they stand there', async () => {
  using workspace = await makeWorkspace()
  const home = workspace.directory('home')
  const dataDir = join(home, '.local/share/static/server')
  await using server = await startServer({ workspace, dataDir, command: 'up' })
  const [, signUp = ''] = commandsUnder('Use')
  const signedUp = signUp.replace('$CA', join(dataDir, 'ca.pem')).replace('$API', server.url)
  const account = JSON.parse(execFileSync('bash', ['-c', signedUp], { encoding: 'utf8' }))
  const agents = workspace.directory('agents')
  const examples = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code)
  assert.equal(examples.length, 2)
  for (const example of examples) {
    const here = example
      .replace('quic://localhost:4433', `quic://localhost:${server.relay.quicPort}`)
      .replace('https://localhost:8443', server.url)
      .replaceAll("'./", `'${agents}/`)
    assert.notEqual(here, example)
    const env = { PATH: process.env['PATH'], HOME: home, STATIC_API_KEY: account.api_key.key }
    const flags = ['--input-type=module-typescript', '--eval', here]
    const printed = execFileSync(process.execPath, flags, { env, encoding: 'utf8', timeout: 30_000 })
    assert.equal(printed, 'hello\n')
  }
})

test('the other commands are scripts of this checkout', () => {
  const { scripts } = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../package.json'), 'utf8'))
  for (const [, word = ''] of readme.matchAll(/`?npm (?:run )?(\w+)/g)) assert.ok(word in scripts, word)
})
