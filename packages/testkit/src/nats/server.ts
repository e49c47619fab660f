/** A real NATS server on loopback, without storage: with TLS and a password, as in a deployment. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { certificates, type Pair } from '../certificates/authority.ts'
import { quietPort } from '../ports.ts'

/** A server that can be stopped and started again at the same port. */
export interface NatsServer extends AsyncDisposable {
  /** With user and password. */
  readonly url: string
  /** CA of its certificate, PEM. */
  readonly ca: string
  readonly caFile: string
  start(): Promise<void>
  stop(): Promise<void>
}

/** How it is started. */
export interface NatsServerOptions {
  readonly maxPayload?: number
  /** For this machine's names by default. */
  readonly certificate?: Pair
}

const TRIES = 200
const TRY_MS = 50
const PASSWORD = 'secret-of-the-bus'

/** Starts a server. */
export async function startNats({
  maxPayload = 1024 * 1024,
  certificate,
}: NatsServerOptions = {}): Promise<NatsServer> {
  const program = natsProgram()
  const port = await quietPort()
  const { authority, named } = await certificates()
  const folder = await mkdtemp(join(tmpdir(), 'static-nats-'))
  const file = (name: string): string => join(folder, name)
  const { cert, key } = certificate ?? named
  await writeFile(file('cert.pem'), cert)
  await writeFile(file('key.pem'), key, { mode: 0o600 })
  const tls = `{ cert_file: "${file('cert.pem')}", key_file: "${file('key.pem')}" }`
  const login = `{ user: relay, password: "${PASSWORD}" }`
  await writeFile(
    file('nats.conf'),
    `listen: "127.0.0.1:${port}"\nmax_payload: ${maxPayload}\ntls: ${tls}\nauthorization: ${login}\n`,
  )
  let child: ReturnType<typeof spawn> | undefined
  const start = async (): Promise<void> => {
    child = spawn(program, ['-c', file('nats.conf')], { stdio: 'ignore' })
    for (let tries = 0; tries < TRIES; tries++) {
      if (await isOpen(port)) return
      await delay(TRY_MS)
    }
    throw new Error('nats-server did not start.')
  }
  const stop = async (): Promise<void> => {
    if (child?.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  await start()
  return {
    url: `tls://relay:${PASSWORD}@localhost:${port}`,
    ca: authority.cert,
    caFile: authority.path,
    start,
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function natsProgram(): string {
  const root = resolve(import.meta.dirname, '../../../..')
  const places = ['/usr/{bin,sbin,local/bin}/nats-server', join(root, '.cache/nats/usr/sbin/nats-server')]
  const found = process.env['STATIC_TEST_NATS'] ?? globSync(places).at(0)
  if (found === undefined) throw new Error('nats-server was not found. Run the tests with `npm test`.')
  return found
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
