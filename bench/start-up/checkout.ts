/** A checkout whose start-up is measured: its commands, its SDK, and a server of its own that they use. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { cpuMs } from '../api/processor.ts'

/** Milliseconds. */
export interface Taken {
  readonly cpu: number
  readonly wall: number
}

/** Something that starts, by name. */
export type Starts = Readonly<Record<string, () => Promise<Taken>>>

/** All measurements of one checkout. */
export interface Checkout extends AsyncDisposable {
  readonly starts: Starts
}

const CHANNEL = 'bench/start-up/one'

/** Bash counts to the millisecond, with all threads; Node does not report the usage of a child. */
const TIMED = 'TIMEFORMAT="%3U %3S %3R"; time "$@" > /dev/null'

/** Starts a server out of the checkout and prepares what the commands need. */
export async function openCheckout(checkout: string, directory: string): Promise<Checkout> {
  const copy = join(checkout, '.cache/start-up')
  for (const folder of [copy, directory]) mkdirSync(folder, { recursive: true })
  copyFileSync(join(import.meta.dirname, 'connect.ts'), join(copy, 'connect.ts'))
  const plain = join(checkout, 'packages/cli/src/main.js')
  const main = existsSync(plain) ? plain : join(checkout, 'packages/cli/src/main.ts')
  const homes = { XDG_CACHE_HOME: join(directory, 'cache'), XDG_DATA_HOME: join(directory, 'data') }
  const up = (dataDir: string): Promise<Server> => startServer(main, dataDir, homes)
  const { child: server, ready } = await up(join(directory, 'server'))
  const ca = join(directory, 'server/ca.pem')
  const { api_url: apiUrl, relay_grpc: endpoint } = ready
  const apiKey = await signUp(apiUrl, readFileSync(ca))
  const env = {
    ...homes,
    STATIC_API_URL: apiUrl,
    STATIC_API_KEY: apiKey,
    STATIC_RELAY: endpoint,
    STATIC_CA: ca,
    STATIC_IDENTITY: 'bench',
  }
  const command = (...words: string[]): Promise<Taken> => time([main, ...words], env)
  await command('channel', 'create', CHANNEL)
  let made = 0
  const connection = (): string => {
    const identity = `agent-${++made}`
    return JSON.stringify({ endpoint, apiUrl, apiKey, ca, identity, dataDir: join(directory, identity) })
  }
  const start = async (dataDir: string): Promise<Taken> => {
    const { child, taken } = await up(dataDir)
    await end(child)
    return taken
  }
  const first = async (): Promise<Taken> => {
    const dataDir = join(directory, `first-${++made}`)
    const taken = await start(dataDir)
    rmSync(dataDir, { recursive: true })
    return taken
  }
  return {
    starts: {
      'import of the SDK': () => time([join(copy, 'connect.ts')], env),
      'import and first connect': () => time([join(copy, 'connect.ts'), connection()], env),
      'static --version': () => command('--version'),
      'static --help': () => command('--help'),
      'static channel send': () => command('channel', 'send', CHANNEL, 'hello'),
      'static up, first': first,
      'static up, again': () => start(join(directory, 'again')),
    },
    [Symbol.asyncDispose]: () => end(server),
  }
}

async function time(words: readonly string[], env: Record<string, string>): Promise<Taken> {
  const child = spawn('/bin/bash', ['-c', TIMED, 'bash', process.execPath, ...words], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
  })
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  const figures = said.trimEnd().split('\n').at(-1)?.split(' ').map(Number) ?? []
  const [user = Number.NaN, system = Number.NaN, wall = Number.NaN] = figures
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}: ${said}`)
  return { cpu: (user + system) * 1000, wall: wall * 1000 }
}

interface Server {
  readonly child: ChildProcess
  readonly ready: { readonly api_url: string; readonly relay_grpc: string }
  readonly taken: Taken
}

/** Waits until the server reports that it is ready. */
async function startServer(main: string, dataDir: string, env: Record<string, string>): Promise<Server> {
  const start = performance.now()
  const ports = ['--api-port', '0', '--grpc-port', '0', '--quic-port', '0']
  const words = [main, 'up', '--json', '--data-dir', dataDir, '--log-level', 'silent', ...ports]
  const child = spawn(process.execPath, words, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  })
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const wall = performance.now() - start
  return { child, ready: JSON.parse(line) as Server['ready'], taken: { cpu: cpuMs(child.pid ?? 0), wall } }
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

async function signUp(url: string, ca: Buffer): Promise<string> {
  const body = JSON.stringify({ email: 'bench@example.com', password: 'correct horse battery staple' })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { 'content-type': 'application/json' }
  request(
    `${url}/v1/accounts`,
    { method: 'POST', ca, headers },
    (response) => void text(response).then(resolve, reject),
  )
    .on('error', reject)
    .end(body)
  const { api_key: key } = JSON.parse(await promise) as { api_key: { key: string } }
  return key.key
}
