/**
 * `npm run proof -- release`: builds a release in two fresh clones, under different paths, umasks and times, and compares
 * every byte; then installs each of its files into an empty directory, as docs/12-install.md says, and tells the story of
 * the README with it. Needs npm's registry, for packages of others.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { say } from '../../scripts/step.ts'
import { talk } from '../../scripts/story.ts'

const root = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/12-install.md'), 'utf8')
const snippets = [...page.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, code = '']) => code)
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const [, program = ''] = /```ts\n([\s\S]*?)```/.exec(readme) ?? []
const home = mkdtempSync('/var/tmp/static-release-')
const running = new Set<ChildProcess>()
/** The SDK with all that it needs, and without QUIC. */
const MOST_SDK_MB = 60

/** A directory with nothing but what was published, and an environment that knows nothing of this checkout. */
class Machine {
  readonly path: string
  readonly #env: NodeJS.ProcessEnv

  constructor(name: string, env: NodeJS.ProcessEnv = {}) {
    this.path = join(home, name)
    mkdirSync(this.path)
    this.#env = { HOME: this.path, LANG: 'C.UTF-8', PATH: '/usr/bin:/bin', ...env }
  }

  readonly shell = (command: string): string => {
    const { status, stdout } = spawnSync('bash', ['-o', 'pipefail', '-c', command], {
      cwd: this.path,
      env: this.#env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    if (status !== 0) throw new Error(`${command} failed; see its output above.\n${stdout}`)
    return stdout
  }

  /** Gets a file of the release. */
  receive(...names: readonly string[]): void {
    for (const name of names) cpSync(join(release, name), join(this.path, name))
  }

  /** Starts `static up` and waits until it serves. */
  async serve(command: string): Promise<{ url: string; relay: string }> {
    const ports = '--api-port 0 --grpc-port 0 --quic-port 0 --no-files'
    const words = ['-c', `exec ${command} up --json --log-level silent ${ports}`]
    const server = spawn('bash', words, { cwd: this.path, env: this.#env, stdio: ['ignore', 'pipe', 'inherit'] })
    running.add(server)
    for await (const line of createInterface(server.stdout)) {
      const ready = JSON.parse(line) as { api_url: string; relay_quic: string }
      return { url: ready.api_url, relay: ready.relay_quic }
    }
    throw new Error(`${command} up ended before it was ready.`)
  }
}

let release = ''
try {
  const [first, second] = [build('first', '022'), build('a/longer/path/to/the/second', '077')]
  compare(first, second)
  release = first
  await installArchive()
  await installPackages()
  installWheel()
  installContext()
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  for (const server of running) {
    const ended = once(server, 'exit')
    if (server.exitCode === null && server.kill()) await ended
  }
  rmSync(home, { recursive: true, force: true })
}

/** Builds a release in a fresh clone. */
function build(name: string, umask: string): string {
  say(`Building a release in a fresh clone (umask ${umask})`)
  const clone = join(home, name)
  const { PATH = '', NODE_EXTRA_CA_CERTS } = process.env
  // The Node and the programs of a new machine, not those of this checkout.
  const path = PATH.split(':').filter((folder) => !folder.startsWith(root))
  const begin = performance.now()
  const steps = `umask ${umask} && git clone -q ${root} ${clone} && cd ${clone} && npm run --silent release`
  const { status } = spawnSync('bash', ['-c', steps], {
    env: { ...process.env, PATH: path.join(':'), NODE_EXTRA_CA_CERTS, INIT_CWD: undefined },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (status !== 0) throw new Error('The release could not be built; see the output above.')
  say(`Built in ${seconds(begin)}`)
  return join(clone, '.cache/release')
}

function compare(first: string, second: string): void {
  const [one = '', other = ''] = [first, second].map((folder) => readdirSync(folder).sort().join(' '))
  if (one !== other) throw new Error(`The releases have other files: ${one}; ${other}.`)
  const names = one.split(' ')
  const differ = names.filter((name) => !readFileSync(join(first, name)).equals(readFileSync(join(second, name))))
  if (differ.length > 0) throw new Error(`The same commit gave other bytes: ${differ.join(', ')}.`)
  new Machine('sums').shell(`cd ${first} && sha256sum --check --quiet SHA256SUMS`)
  say(`${names.length} files, the same bytes from both clones`)
}

/** The file of the release whose name begins and ends so. */
function file(begin: string, end: string): string {
  const found = readdirSync(release).find((name) => name.startsWith(begin) && name.endsWith(end))
  if (found === undefined) throw new Error(`There is no ${begin}…${end} in the release.`)
  return found
}

async function installArchive(): Promise<void> {
  const archive = file('static-', `-${process.platform}-${process.arch}.tar.gz`)
  const machine = new Machine('archive')
  machine.receive(archive)
  const begin = performance.now()
  machine.shell(snippets[0]!)
  const folder = archive.replace('.tar.gz', '')
  report('the archive', begin, archive, join(machine.path, folder))
  const command = `${machine.path}/${folder}/static`
  const { url, relay } = await machine.serve(command)
  talk(machine.shell, command, url, relay)
  say('Two agents talked, with the archive alone')
}

/** Our packages come from the files alone: for their names, npm is sent to a registry that does not exist. */
async function installPackages(): Promise<void> {
  const node = join(
    home,
    'archive',
    readdirSync(join(home, 'archive')).find((name) => name.endsWith('64'))!,
    'bin',
  )
  const { NODE_EXTRA_CA_CERTS } = process.env
  const machine = new Machine('npm', { PATH: `${node}:/usr/bin:/bin`, NODE_EXTRA_CA_CERTS })
  const npmrc = join(process.env['HOME'] ?? '', '.npmrc')
  const own = existsSync(npmrc) ? readFileSync(npmrc, 'utf8') : ''
  writeFileSync(join(machine.path, '.npmrc'), `${own}\n@static:registry=http://127.0.0.1:9/\nfetch-retries=0\n`)
  writeFileSync(join(machine.path, 'package.json'), '{"private":true,"type":"module"}')
  const tarballs = readdirSync(release).filter((name) => name.endsWith('.tgz'))
  machine.receive(...tarballs)
  const begin = performance.now()
  machine.shell(snippets[1]!)
  const sdk = tarballs.filter((name) => /-(?:node|protocol|sdk)-/.test(name))
  const megabytes = report('the SDK by npm', begin, ...sdk, join(machine.path, 'node_modules'))
  if (megabytes > MOST_SDK_MB) throw new Error(`The SDK takes ${megabytes} MB, more than ${MOST_SDK_MB}.`)
  machine.shell(`npm install --silent ${tarballs.map((name) => `./${name}`).join(' ')}`)
  const command = 'node_modules/.bin/static'
  const { url, relay } = await machine.serve(command)
  talk(machine.shell, command, url, relay)
  writeFileSync(join(machine.path, 'demo.js'), program)
  if (machine.shell('node demo.js') !== 'hello\n') throw new Error('The program of the README did not print hello.')
  say('Two agents talked, and the program of the README ran, with the npm packages')
}

function installWheel(): void {
  const wheel = file('static_sdk-', '.whl')
  const { HOME, PATH } = { HOME: join(home, 'npm'), PATH: '/usr/bin:/bin' }
  const machine = new Machine('wheel', { PATH })
  machine.receive(wheel)
  const begin = performance.now()
  machine.shell(snippets[2]!)
  report('the wheel', begin, wheel, join(machine.path, 'python'))
  cpSync(join(root, 'examples/two_agents.py'), join(machine.path, 'two_agents.py'))
  const archive = readdirSync(join(home, 'archive')).find((name) => name.endsWith('64'))!
  const node = join(home, 'archive', archive, 'bin/node')
  // The account and the server of the last story.
  const said = machine.shell(`HOME=${HOME} STATIC_NODE=${node} PYTHONPATH=python python3 two_agents.py`)
  if (!said.includes('bob hears')) throw new Error(`The example in Python said ${said}`)
  say('Two agents talked, with the wheel')
}

/** As deploy/Dockerfile does; `npm run proof -- image` builds the image itself. */
function installContext(): void {
  const context = file('static-', '-image-context.tar.gz')
  const { NODE_EXTRA_CA_CERTS } = process.env
  const machine = new Machine('context', { NODE_EXTRA_CA_CERTS, HOME: process.env['HOME'] })
  machine.receive(context)
  const begin = performance.now()
  machine.shell(`tar -xzf ${context} && rm ${context} && npm run --silent setup`)
  report('the context of the image', begin, context, machine.path)
  if (!existsSync(join(machine.path, 'deploy/Dockerfile'))) throw new Error('The context has no deploy/Dockerfile.')
  machine.shell('node_modules/.bin/static --version')
}

/** `place`, the last name, is where it was installed. Returns its megabytes on disk. */
function report(what: string, begin: number, ...names: readonly string[]): number {
  const place = names.at(-1)!
  const packed = names.slice(0, -1).reduce((sum, name) => sum + statSync(join(release, name)).size, 0)
  const disk = Number(
    spawnSync('bash', ['-c', `du -s --block-size=1 ${place}`], { encoding: 'utf8' }).stdout.split('\t')[0],
  )
  say(`Installed ${what} in ${seconds(begin)}: ${(packed / 1e6).toFixed(1)} MB, ${(disk / 1e6).toFixed(0)} MB on disk`)
  return Math.round(disk / 1e6)
}

function seconds(begin: number): string {
  return `${((performance.now() - begin) / 1000).toFixed(1)} s`
}
