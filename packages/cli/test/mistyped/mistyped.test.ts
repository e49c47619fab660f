/** Secrets in a mistyped command line: no message repeats them. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import type { Command } from 'commander'
import { makeProgram } from '../../src/program.ts'

const home = mkdtempSync(join(tmpdir(), 'static-mistyped-'))
after(() => rmSync(home, { recursive: true, force: true }))

/** A secret of every kind; none is anyone's. The bodies have nothing in common with words of a message. */
const SECRETS = [
  'sk_live_Q7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw',
  'sk_test_Q7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw',
  'st_inv_AQAAAZrQ7r2Xw9L_Q7r2Xw9L-Q7r2Xw9LQ7r2Xw9LQ7r2Xw9L',
  'static://AQAAAZrQ7r2Xw9L_Q7r2Xw9L-Q7r2Xw9LQ7r2Xw9LQ7r2Xw9L',
  'pw_Q7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7',
  'su_Q7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7',
]
/** Commands that would run on, or change files: a flag that they do not have stops them after the others were read. */
const RUNNING = ['up', 'api', 'relay', 'proxy', 'admin', 'mcp']
/** Flags that are checked only when the agent opens, or that name the key file itself. */
const LATE = ['--relay', '--key-file']
/** What these commands print is what they were asked for, whatever a flag contains. */
const RESULTS = [/^console .*--api-url/]

/** Every command, by its names from the root. */
function commandsOf(command: Command, path: readonly string[] = []): (readonly [readonly string[], Command])[] {
  const below = command.commands.flatMap((child) => commandsOf(child, [...path, child.name()]))
  return [[path, command], ...below]
}

/** The command with a secret in every wrong place: too many arguments, arguments and flags of another kind. */
function* mistyped(path: readonly string[], command: Command, next: () => string): Generator<readonly string[]> {
  const flags = command.options.filter(({ required, optional }) => required || optional).map(({ long }) => long ?? '')
  // Stops before an agent is opened.
  const early = flags.includes('--key-file') ? ['--key-file', '/nowhere/key'] : []
  const fitting = command.registeredArguments.map((argument) => (argument.name() === 'channel' ? 'acme/a/b' : 'x'))
  yield [...path, next(), ...early]
  yield [...path, ...early, ...fitting.slice(0, -1), next()]
  yield [...path, ...early, ...fitting, next()]
  yield [...path, ...early, ...fitting, next(), next()]
  yield [...path, `--wrong=${next()}`]
  yield [...path, `--${next()}`]
  yield [...path, '--wrong', next()]
  for (const flag of flags) {
    const stop = RUNNING.includes(path[0] ?? '') ? ['--no-such-flag'] : LATE.includes(flag) ? [] : early
    yield [...path, ...fitting, flag, next(), ...stop]
    yield [...path, ...fitting, `${flag}=${next()}`, '--json', ...stop]
  }
}

test('a key, token or link in the wrong place of any command is not repeated', async () => {
  let count = 0
  const next = (): string => SECRETS[count++ % SECRETS.length] ?? ''
  const lines = commandsOf(await makeProgram())
    .flatMap(([path, command]) => [...mistyped(path, command, next)])
    .filter((words) => RESULTS.every((result) => !result.test(words.join(' '))))
  const file = join(home, 'lines.json')
  writeFileSync(file, JSON.stringify(lines))
  const env = { HOME: home, PATH: '', NO_COLOR: '1', STATIC_API_URL: 'https://127.0.0.1:9', XDG_RUNTIME_DIR: home }
  const program = join(import.meta.dirname, 'lines-child.ts')
  const running = promisify(execFile)(process.execPath, [program, file], {
    env,
    cwd: home,
    maxBuffer: 64 * 1024 * 1024,
  })
  running.child.stdin?.end()
  const { stdout } = await running
  const results = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { words: string[]; printed: string })
  assert.equal(results.length, lines.length)
  const repeated = results.filter(({ printed }) => /Q7r2Xw9L/i.test(printed))
  const found = repeated.map(({ words, printed }) => `${words.join(' ')}\n    ${printed.trim()}`)
  assert.deepEqual(found, [], `${found.length} of ${results.length}`)
})
