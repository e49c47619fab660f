// The entry point of every task: `npm start`, `npm test`, `npm run check`, `npm run bench`.
// It must run on an old Node (a fresh Debian 12 machine has 20), so it is plain JavaScript without
// dependencies: it installs what the task needs, then starts the task with a Node that runs TypeScript.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { downloadNode, fail, findNode, hasPackages, installPackages, root, say } from './install.mjs'
import { takeLock } from './lock.mjs'

/** Output of preparations goes to stderr: stdout is the task's, with one line for `npm start -- --json`. */
const QUIET = ['ignore', 2, 2]

const TASKS = {
  start: ['packages/cli/src/main.js', 'up'],
  test: ['scripts/test.ts'],
  check: ['scripts/check.ts'],
  bench: ['scripts/bench.ts'],
  proof: ['scripts/proof.ts'],
  format: ['node_modules/oxfmt/bin/oxfmt'],
  gen: ['scripts/gen.ts'],
  pack: ['scripts/pack.ts'],
  'pack:python': ['scripts/wheel.ts'],
  release: ['scripts/release.ts'],
  // Only installs what `start` needs, for images and services.
  setup: undefined,
}

const [task = '', ...flags] = process.argv.slice(2)
if (!(task in TASKS)) fail(`Unknown task "${task}". Known: ${Object.keys(TASKS).join(', ')}.`)
if (task === 'start' && flags.some((flag) => flag === '--help' || flag === '-h')) showHelp()
const level = task === 'start' || task === 'setup' ? 'run' : 'test'
const node = findNode()
if (!isSetUp()) setUp()
if (task !== 'setup') handOver(node, [...TASKS[task], ...flags])

/** Without starting the command: its packages may not be installed, and help must not download them. */
function showHelp() {
  process.stdout.write(readFileSync(join(root, 'scripts/start-help.txt')))
  process.exit()
}

function isSetUp() {
  return existsSync(node) && hasPackages(node, level) && isConsoleBuilt()
}

/** One process at a time: two would install into the same folders. */
function setUp() {
  const release = takeLock(join(root, '.cache/set-up'), (pid) =>
    say(`Waiting for process ${pid}, which is installing into this checkout`),
  )
  if (!existsSync(node)) downloadNode(node, level)
  if (!hasPackages(node, level)) installPackages(node, level)
  if (!isConsoleBuilt()) buildConsole()
  release()
}

/** Whether the console was built from these exact sources and packages. */
function isConsoleBuilt() {
  const stamp = join(root, '.cache/console-stamp')
  const isBuilt = existsSync(join(root, 'packages/console/dist/index.html'))
  return isBuilt && existsSync(stamp) && readFileSync(stamp, 'utf8') === consoleHash()
}

function consoleHash() {
  const home = join(root, 'packages/console')
  const names = readdirSync(join(home, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(home, join(entry.parentPath ?? entry.path, entry.name)))
    .sort()
  const sources = [...names, 'index.html', 'build.ts', '../../package-lock.json']
  const hash = createHash('sha256')
  for (const name of sources) hash.update(`${name}\0`).update(readFileSync(join(home, name)))
  return hash.digest('hex')
}

function buildConsole() {
  say('Building the console (once)')
  const done = spawnSync(node, [join(root, 'packages/console/build.ts')], { stdio: QUIET })
  if (done.status !== 0) fail('Building the console failed; see the output of Vite above.')
  writeFileSync(join(root, '.cache/console-stamp'), consoleHash())
}

/** Runs the task with the same terminal, signals and exit code. */
function handOver(binary, words) {
  const path = `${dirname(binary)}:${join(root, 'node_modules/.bin')}:${process.env.PATH ?? ''}`
  const child = spawn(
    binary,
    words.map((word, at) => (at === 0 ? join(root, word) : word)),
    {
      // npm changes to the package's folder, but paths in flags are relative to the user's folder.
      cwd: task === 'start' ? (process.env.INIT_CWD ?? root) : root,
      stdio: 'inherit',
      env: { ...process.env, PATH: path },
    },
  )
  // A terminal sends Ctrl-C to the child as well; this process only waits for it to finish.
  process.on('SIGINT', () => {})
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  if (task === 'start') endWithParent(child)
  child.on('error', (error) => fail(`Cannot start Node: ${error.message}`))
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)))
}

/** If npm is killed, no signal reaches this process, but it gets another parent: the server must not stay behind. */
function endWithParent(child) {
  const parent = process.ppid
  setInterval(() => process.ppid !== parent && child.kill('SIGTERM'), 500).unref()
}
