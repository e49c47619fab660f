/** `static up --acme` against Pebble: `npm run proof -- acme`. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { request } from 'node:https'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { connect } from 'node:tls'
import { dialQuic } from '@static/quic'
import { quietPort } from '@static/testkit/ports'
import { failCommand, type Ready, sentenceOf, startCommand } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'

const { STATIC_PEBBLE: programs = '' } = process.env
const NAME = 'static.test'
/** Long enough for a start on a busy machine, short enough to wait for. */
const LIFE_SECONDS = 60

const workspace = await makeWorkspace()
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) if (child.kill()) await once(child, 'close')
  workspace[Symbol.dispose]()
})
/** Of the authority, its management, its resolver, and the management of that. */
const [acme, management, resolver, control] = await Promise.all(Array.from({ length: 4 }, () => quietPort()))
/** Where the authority asks for challenges, and another. The server listens there on every address. */
const [challenges, elsewhere] = await Promise.all([freePort(), freePort()])
const env = { NODE_EXTRA_CA_CERTS: workspace.caFile, TMPDIR: workspace.path }

async function freePort(): Promise<number> {
  const held = createServer().listen(0)
  await once(held, 'listening')
  const { port } = held.address() as AddressInfo
  held.close()
  return port
}

function start(name: string, words: readonly string[], sign: RegExp): Promise<void> {
  const child = spawn(join(programs, name), words, {
    env: { PEBBLE_VA_NOSLEEP: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let said = ''
  for (const output of [child.stdout, child.stderr])
    output.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      if (sign.test(said)) resolve()
    })
  child.once('close', () => reject(new Error(`${name} ended:\n${said}`)))
  return promise
}

async function startPebble(): Promise<void> {
  const off = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', '']
  const dns = ['-defaultIPv4', '127.0.0.1', '-defaultIPv6', '', '-dnsserver', `127.0.0.1:${resolver}`]
  await start('pebble-challtestsrv', [...off, ...dns, '-management', `127.0.0.1:${control}`], /Starting management/i)
  const config = {
    pebble: {
      listenAddress: `127.0.0.1:${acme}`,
      managementListenAddress: `127.0.0.1:${management}`,
      certificate: workspace.certFile,
      privateKey: workspace.keyFile,
      httpPort: challenges,
      tlsPort: elsewhere,
      profiles: { default: { description: 'short', validityPeriod: LIFE_SECONDS } },
    },
  }
  const file = workspace.file('pebble.json', JSON.stringify(config))
  await start('pebble', ['-config', file, '-dnsserver', `127.0.0.1:${resolver}`], /Listening on|listening on/)
}

/** The root of the authority, PEM. */
async function root(): Promise<string> {
  const asked = request({ host: '127.0.0.1', port: management, path: '/roots/0', ca: workspace.ca }).end()
  const [answer] = (await once(asked, 'response')) as [NodeJS.ReadableStream]
  return await text(answer)
}

interface Line {
  readonly api_url: string
  readonly relay_grpc: string
  readonly relay_quic: readonly string[]
  readonly ca?: string
}

const upWords = (dataDir: string, port = challenges): string[] =>
  [
    `up --json --log-level silent --host 127.0.0.1 --data-dir ${dataDir}`,
    '--api-port 0 --grpc-port 0 --quic-port 0 --quic-endpoints 1 --no-files',
    `--name ${NAME} --acme you@example.com --acme-port ${port} --acme-directory https://127.0.0.1:${acme}/dir`,
  ].flatMap((line) => line.split(' '))

function ports({ ready }: Ready<Line>): { readonly tcp: readonly number[]; readonly udp: number } {
  const portOf = (url: string): number => Number(new URL(url).port)
  return { tcp: [ready.api_url, ready.relay_grpc].map(portOf), udp: portOf(ready.relay_quic[0]!) }
}

/** The certificate that a port shows, which the root must have signed. */
async function shown(port: number, ca: string): Promise<X509Certificate> {
  const socket = connect({ host: '127.0.0.1', port, servername: NAME, ca })
  await once(socket, 'secureConnect')
  const certificate = socket.getPeerX509Certificate()
  socket.destroy()
  return new X509Certificate(certificate!.raw)
}

const skip = programs === '' && 'neither Pebble nor Go to build it is here'

test(
  'a server gets its certificate by ACME, renews it without a restart, and starts without the authority',
  { skip },
  async () => {
    await startPebble()
    const ca = await root()
    const dataDir = workspace.directory('up')
    let server = await startCommand<Line>(upWords(dataDir), { env })
    assert.equal(server.ready.ca, undefined)
    const { tcp, udp } = ports(server)
    const [first, ...same] = await Promise.all(tcp.map((port) => shown(port, ca)))
    assert.deepEqual(first!.subjectAltName, `DNS:${NAME}`)
    for (const certificate of same) assert.equal(certificate.serialNumber, first!.serialNumber)
    await dial(udp, ca)
    assert.ok(!existsSync(join(dataDir, 'ca.pem')))

    // What the hourly look does; a third of its life before the end it is renewed.
    const due = first!.validToDate.getTime() - (LIFE_SECONDS * 1000) / 3
    while (Date.now() < due + 1000) await wait(500)
    process.kill(server.pid, 'SIGHUP')
    for (const port of tcp)
      while ((await shown(port, ca)).serialNumber === first!.serialNumber) {
        assert.ok(Date.now() < first!.validToDate.getTime(), server.errors())
        await wait(100)
      }
    // QUIC does not show its certificate: only the new one is valid once the first has expired.
    while (Date.now() < first!.validToDate.getTime() + 1000) await wait(500)
    await dial(udp, ca)
    const second = await shown(tcp[0]!, ca)
    assert.equal(server.errors(), '')
    await server.end('SIGTERM')

    // Its own clock says whether what is stored will do; the authority is gone.
    const [, pebble] = children
    pebble!.kill('SIGSTOP')
    server = await startCommand<Line>(upWords(dataDir), { env })
    assert.equal((await shown(ports(server).tcp[0]!, ca)).serialNumber, second.serialNumber)
    await server.end('SIGTERM')
    pebble!.kill('SIGCONT')
  },
)

async function dial(port: number, ca: string): Promise<void> {
  const connection = await dialQuic('127.0.0.1', { host: '127.0.0.1', port, serverName: NAME, ca })
  await connection.close()
}

test(
  'a name that does not lead here, and an authority that is not there, fail with one sentence',
  { skip },
  async () => {
    const dataDir = workspace.directory('failed')
    const lost = await failCommand(upWords(dataDir, elsewhere), { env })
    assert.equal(lost.code, 1)
    assert.match(
      lost.errors,
      /^(?!.*\n.*\n).*The certificate for static\.test could not be obtained from 127\.0\.0\.1:\d+: /,
    )
    assert.deepEqual(readdirSync(join(dataDir, 'acme', `127.0.0.1_${acme}`)), ['account.key'])
    const [, pebble] = children
    pebble!.kill()
    await once(pebble!, 'close')
    children.splice(1, 1)
    const gone = await failCommand(upWords(dataDir), { env })
    assert.equal(gone.code, 1)
    assert.match(sentenceOf(gone.errors), /could not be obtained from 127\.0\.0\.1:\d+: it cannot be reached\.$/)
  },
)
