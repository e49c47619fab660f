import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { Command } from 'commander'
import { bashScript } from '../src/completion/bash.ts'
import { fishScript } from '../src/completion/fish.ts'
import { treeOf } from '../src/completion/tree.ts'
import { zshScript } from '../src/completion/zsh.ts'
import { makeProgram } from '../src/program.ts'

const run = promisify(execFile)
const all = await makeProgram()
const home = mkdtempSync(join(tmpdir(), 'static-help-'))
after(() => rmSync(home, { recursive: true, force: true }))

/** The help page of a command. */
function help(path: string): string {
  let page = ''
  const command = path
    .split(' ')
    .filter(Boolean)
    .reduce<Command | undefined>((at, name) => at?.commands.find((child) => child.name() === name), all)
  assert.ok(command, path)
  command.configureOutput({ writeOut: (text) => (page += text) }).outputHelp()
  return page
}

/** The commands that a help page lists. */
function listed(page: string): string[] {
  const lists = page.split(/\n(?:Servers|Account|Channels|Help|Commands):\n/).slice(1)
  return lists.flatMap((list) =>
    [...(list.split('\n\n')[0] ?? '').matchAll(/^ {2}([a-z][a-z0-9-]*)/gm)].map(([, name = '']) => name),
  )
}

void test('every command of the contract has a help page with an example, and every one that acts takes --json', () => {
  const expected = {
    '': 'up api relay proxy admin signup login logout whoami keys token usage console channel agent approval trust domain a2a mcp doctor completion help',
    admin: 'accounts audit backup restore copy plan suspend resume delete-channel migrate proxy-certificate help',
    'admin accounts': 'list find create invite reset-password close help',
    'admin accounts invite': 'list revoke',
    keys: 'list create revoke help',
    channel:
      'create list members vouch remove accept-new-key invite join send listen files history ask serve request-approval approvals decide receipts poison verify accept-fork reject-commit lift-bar rotate reset-roster standby transfer take-over leave delete help',
    'channel invite': 'list revoke',
    'channel files': 'list save drop help',
    'channel poison': 'list retry drop help',
    a2a: 'card help',
    approval: 'check help',
    trust: 'add list remove accept-keys help',
    domain: 'init check list sign revoke rotate renew help',
    agent: 'create list export-fingerprint delete add-proof accept-relay slots history help',
    'agent slots': 'list add remove change-passphrase help',
  }
  const pages = new Map<string, string>()
  for (const [group, names] of Object.entries(expected)) {
    const page = help(group)
    assert.deepEqual(listed(page), names.split(' '), group)
    pages.set(group, page)
  }
  const acting = Object.entries(expected).flatMap(([group, names]) =>
    names
      .split(' ')
      .map((name) => `${group} ${name}`.trim())
      .filter((path) => !(path in expected) && !path.endsWith('help')),
  )
  for (const path of acting) {
    assert.match(help(path), /\nExamples?:\n {2}\$ /, path)
    assert.match(help(path), /\n {2}--json /, path)
    const isServer = /^(up|api|relay|proxy|admin|completion)\b/.test(path)
    assert.equal(help(path).includes('\n  --account <name>'), !isServer, path)
  }
  for (const code of [0, 1, 2, 3, 4, 10, 11, 130, 143])
    assert.match(pages.get('') ?? '', new RegExp(`\n {2}${code} +\\w`))
})

void test('--help shows the same whether commands are loaded or not, and loads neither them nor the SDK', async () => {
  const shown: string[] = []
  const few = (await makeProgram(['help'])).configureOutput({ writeOut: (text) => shown.push(text) })
  few.outputHelp()
  assert.equal(shown.join(''), help(''))
  const main = join(import.meta.dirname, '../src/main.js')
  const hook = `import { registerHooks } from 'node:module'
    registerHooks({ load: (url, context, next) => (process.stderr.write(url + '\\n'), next(url, context)) })`
  const words = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`, main, '--help']
  const { stdout, stderr } = await run(process.execPath, words)
  assert.equal(stdout, shown.join(''))
  assert.match(stderr, /\/command-groups\.ts\n/)
  assert.doesNotMatch(stderr, /\/cli\/src\/commands\/|\/sdk\/|@bufbuild/)
})

void test('from the second start on, Node does not load its TypeScript support, which takes half of the time', async () => {
  const hook = `process.on('exit', () => {
    const threads = 'threads ' + process.env.NODE_COMPILE_CACHE
    process.stderr.write([...process.moduleLoadList, threads].join('\\n'))
  })`
  const main = join(import.meta.dirname, '../src/main.js')
  const words = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`, main, '--version']
  const env = { ...process.env, XDG_CACHE_HOME: home, NODE_COMPILE_CACHE: '' }
  const [first, second] = [await run(process.execPath, words, { env }), await run(process.execPath, words, { env })]
  assert.match(first.stderr, /internal\/deps\/amaro/)
  assert.doesNotMatch(second.stderr, /internal\/deps\/amaro/)
  assert.equal(first.stdout, second.stdout)
  // The threads of a server use the same cache.
  assert.equal(second.stderr.split('\n').at(-1), `threads ${join(home, 'static/code')}`)
  // Others could put a cache of their own in place of this one, and its content is executed.
  chmodSync(home, 0o722)
  const { stderr } = await run(process.execPath, words, { env })
  chmodSync(home, 0o700)
  assert.match(stderr, /internal\/deps\/amaro/)
  assert.equal(stderr.split('\n').at(-1), 'threads ')
})

void test('an error as JSON has no character that a terminal acts on, wherever its text is from', async () => {
  const main = join(import.meta.dirname, '../src/main.js')
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: home }
  const failed = run(process.execPath, [main, 'whoami', '--json', '--ca', '/\u009b2J\u202e.pem'], { env })
  await assert.rejects(failed, ({ stderr }: { stderr: string }) => {
    assert.doesNotMatch(stderr, /[\p{Cf}\u0080-\u009f]/u)
    const { error } = JSON.parse(stderr) as { error: { message: string } }
    assert.match(error.message, /\u009b2J\u202e\.pem cannot be read/)
    return true
  })
})

const program = new Command('static')
  .version('1')
  .addCommand(
    new Command('channel')
      .description("it's: channels")
      .addCommand(new Command('send').option('--lines', 'each').option('--mode <mode>', 'which')),
  )
program.commands[0]?.commands[0]?.options[1]?.choices(['live', 'test'])

void test('bash completes commands, flags, choices, and files where neither is known', async () => {
  const script = join(home, 'completion.bash')
  writeFileSync(script, bashScript(treeOf(program)))
  const complete = async (...words: readonly string[]): Promise<string> => {
    const line = words.map((word) => `'${word}'`).join(' ')
    const code = `. ${script}; COMP_WORDS=(static ${line}); COMP_CWORD=${words.length}; _static; echo "\${COMPREPLY[*]}"`
    return (await run('bash', ['-c', code])).stdout.trim()
  }
  assert.equal(await complete(''), 'channel --version --help')
  assert.equal(await complete('ch'), 'channel')
  assert.equal(await complete('channel', ''), 'send --help')
  assert.equal(await complete('channel', 'send', '--'), '--lines --mode --help')
  assert.equal(await complete('channel', 'send', 'acme/a/b', '--li'), '--lines')
  assert.equal(await complete('channel', 'send', '--mode', ''), 'live test')
  assert.equal(await complete('channel', 'send', 'file'), '')
})

void test('zsh and fish get every command with its description', () => {
  const tree = treeOf(program)
  assert.match(zshScript(tree), /"channel"\) commands=\('send'\) flags=\('--help:display help for command'\) ;;/)
  assert.match(zshScript(tree), /commands=\('channel:it'\\''s\\: channels'\)/)
  assert.match(zshScript(tree), /"channel send\|--mode"\) compadd -- live test; return ;;/)
  assert.match(fishScript(tree), /complete -c static -n '__static_at \\'\\'' -f -a channel -d 'it\\'s: channels'\n/)
  assert.match(fishScript(tree), /-n '__static_at \\'channel send\\'' -l mode -x -a 'live test' -d 'which'/)
})
