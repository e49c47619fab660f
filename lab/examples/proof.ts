/**
 * `npm run proof -- examples`: runs the examples with language models as their README says, against a server of their
 * own. The frameworks are installed from their lock files into a directory that is removed again.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { startServer } from '@static/testkit/server'
import { MAIN } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'

/** What each example prints. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  'review.ts': ['about the work of ann: do not use eval', 'about the work of bob: approved'],
  'langgraph/review.mjs': ['the reviewer: reviewed', 'the author hears: approved'],
  'openai-agents/review.mjs': ['the reviewer: reviewed', 'the author hears: do not use eval'],
}
const FOLDER = resolve(import.meta.dirname, '../../examples/mcp')
const LATEST_MS = 300_000

using workspace = await makeWorkspace()
await using server = await startServer({
  workspace,
  dataDir: join(workspace.path, 'server'),
  command: 'up',
  logLevel: 'silent',
})
const home = workspace.directory('home')
const program = workspace.file('static', `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`)
chmodSync(program, 0o700)
const env = { PATH: process.env['PATH'] ?? '', HOME: home, TMPDIR: workspace.path, STATIC_PROGRAM: program }

/** Runs a program and returns what it prints. */
function run(command: string, words: readonly string[], input = '', variables: NodeJS.ProcessEnv = env): string {
  const options = { cwd: workspace.path, env: variables, input, encoding: 'utf8', timeout: LATEST_MS } as const
  const { status, stdout, stderr } = spawnSync(command, words, options)
  if (status !== 0) throw new Error(`${command} ${words.join(' ')} exited with ${status}:\n${stdout}${stderr}`)
  return stdout
}

const relay = `quic://localhost:${server.relay.quicPort}`
const account = ['--email', 'ann@example.com', '--password-stdin', '--api-url', server.url, '--relay', relay]
run(program, ['signup', ...account, '--ca', join(workspace.path, 'server/ca.pem')], 'a long enough password')
for (const [name, expected] of Object.entries(EXAMPLES)) {
  const [folder = '', file] = name.split('/')
  let path = join(FOLDER, name)
  if (file !== undefined) {
    const copy = join(workspace.path, folder)
    cpSync(join(FOLDER, folder), copy, { recursive: true })
    run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', copy], '', process.env)
    path = join(copy, file)
  }
  const printed = run(process.execPath, [path]).trim().split('\n')
  if (printed.join('\n') !== expected.join('\n')) throw new Error(`${name} printed:\n${printed.join('\n')}`)
  console.log(`${name}: ${expected.join('; ')}`)
}
