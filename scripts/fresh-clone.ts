/**
 * `npm run proof -- clone`: clones the last commit, starts it as a new user would, measures the disk space, and lets two
 * agents talk; then runs a test and starts again. Needs npm's registry.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { say } from './step.ts'
import { talk } from './story.ts'

/** Bytes on disk after `npm start`. */
const ROOM = 450e6

const root = resolve(import.meta.dirname, '..')
const home = mkdtempSync(join(tmpdir(), 'static-clone-'))
const clone = join(home, 'static')
// The Node and the programs of a new machine, not those of this checkout.
const path = process.env['PATH']?.split(delimiter).filter((folder) => !folder.startsWith(root))
const env = { ...process.env, HOME: home, PATH: path?.join(delimiter) }
for (const name of Object.keys(env)) if (/^(npm_|INIT_CWD|NODE|STATIC_)/i.test(name)) Reflect.deleteProperty(env, name)

const running = new Set<ChildProcess>()

try {
  shell(`git clone --quiet ${root} ${clone}`, home)
  const first = await start()
  const disk = Number(shell(`du -s --block-size=1 ${clone}`).split('\t')[0])
  say(`${(disk / 1e6).toFixed(0)} MB on disk after npm start`)
  if (disk > ROOM) throw new Error(`That is more than ${ROOM / 1e6} MB.`)
  talk(shell, 'npx static', first.url, first.relay)
  await stop(first.npm)
  await startAgain('npm start')
  const added = shell('npm test -- tests/house/walls.test.ts 2>&1')
  if (!added.includes('Installing the rest')) throw new Error('npm test did not add the rest of the packages.')
  await startAgain('npm test')
  const changed = shell('git status --porcelain')
  if (changed !== '') throw new Error(`The installation changed files of the checkout:\n${changed}`)
  say('Two agents talked; npm test added the rest; npm start installed nothing twice.')
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  for (const npm of running) await stop(npm)
  rmSync(home, { recursive: true, force: true })
}

/** Starts the clone and waits until it serves. */
async function start(): Promise<{ npm: ChildProcess; url: string; relay: string; log: string }> {
  const flags = ['--data-dir', join(home, '.local/share/static/server'), '--json', '--log-level', 'silent']
  const ports = ['--api-port', '0', '--grpc-port', '0', '--quic-port', '0', '--no-files']
  const npm = spawn('npm', ['start', '--', ...flags, ...ports], { cwd: clone, env, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(npm)
  let log = ''
  npm.stderr.on('data', (chunk: Buffer) => {
    process.stderr.write(chunk)
    log += chunk.toString()
  })
  for await (const line of createInterface(npm.stdout)) {
    if (!line.startsWith('{')) continue
    const ready = JSON.parse(line) as { api_url: string; relay_quic: string }
    return { npm, url: ready.api_url, relay: ready.relay_quic, log }
  }
  throw new Error('npm start ended before the server was ready.')
}

async function stop(npm: ChildProcess): Promise<void> {
  if (npm.exitCode !== null) return
  const ended = once(npm, 'exit')
  npm.kill()
  await ended
  running.delete(npm)
}

/** After a task has installed what it needs, there is nothing to install for this one. */
async function startAgain(after: string): Promise<void> {
  const { npm, log } = await start()
  await stop(npm)
  if (/Installing|Building/.test(log)) throw new Error(`npm start installed something again after ${after}.`)
}

function shell(command: string, cwd: string = clone): string {
  const { status, stdout } = spawnSync('bash', ['-o', 'pipefail', '-c', command], {
    cwd,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (status !== 0) throw new Error(`${command} failed; see its output above.\n${stdout}`)
  return stdout
}
