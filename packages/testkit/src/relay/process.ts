/** Controls a relay that runs in its own process. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificates } from '../certificates/authority.ts'
import type { RelayOptions } from '@static/relay'
import type { FailAt } from '../crash/store-steps.ts'
import { quietPort } from '../ports.ts'
import { FakeApi } from './api.ts'
import { programFile } from '../bundle.ts'

const PROGRAM = programFile('relay-child', join(import.meta.dirname, 'child.ts'))

/** The settings passed to the process. */
export interface ChildOptions {
  readonly cert: string
  readonly key: string
  readonly ca: string
  /** The keys that verify tokens. */
  readonly keys: { readonly keys: readonly object[] }
  readonly database: string
  readonly ports: Ports
  readonly settings: object
  readonly failAt?: FailAt
  readonly cluster?: ClusterAccess
  readonly files?: RelayOptions['files']
}

/** Settings that the nodes of a cluster share. */
export interface ClusterAccess {
  /** URL of the PostgreSQL database. */
  readonly database: string
  readonly keyFile: string
  readonly nats?: { readonly servers: readonly string[]; readonly ca: string }
}

/** A request to the process: its memory usage, now or after a garbage collection. */
export type ChildQuestion = 'measure' | 'collect'

export interface Ports {
  readonly grpc: number
  readonly quic: number
}

/** A running relay. */
export interface RelayChild {
  readonly pid: number
  readonly ports: Ports
  readonly exited: Promise<NodeJS.Signals | number>
  /** Its stderr: empty without errors. */
  errors(): string
  /** Resident memory in bytes. */
  rss(question?: ChildQuestion): Promise<number>
  kill(): void
  /** Shuts it down. */
  close(): Promise<void>
}

/** A directory with a database and certificates, on which relays are started one after the other. */
export class RelayHome {
  readonly api: FakeApi = new FakeApi(Date.now)
  readonly directory: string
  readonly ca: string
  readonly #certificate: { readonly cert: string; readonly key: string }
  readonly clientCertificate: { readonly cert: string; readonly key: string }
  readonly #ports: Ports
  /** For relays started from then on: whether they take files, and where. */
  files: RelayOptions['files']

  private constructor(
    directory: string,
    ca: string,
    certificate: { readonly cert: string; readonly key: string },
    client: { readonly cert: string; readonly key: string },
    ports: Ports,
  ) {
    this.files = undefined
    this.#ports = ports
    this.directory = directory
    this.ca = ca
    this.#certificate = certificate
    this.clientCertificate = client
  }

  static async make(): Promise<RelayHome> {
    const directory = await mkdtemp(join(tmpdir(), 'static-relay-home-'))
    const { authority, named, client } = await certificates()
    const ports = { grpc: await quietPort(), quic: await quietPort() }
    return new RelayHome(directory, authority.cert, named, client, ports)
  }

  /** Starts a relay, always on the same ports. */
  async start(settings: object, failAt?: FailAt): Promise<RelayChild> {
    return this.#start({ settings, ports: this.#ports, ...(failAt === undefined ? {} : { failAt }) })
  }

  /** Starts a node of a cluster; `keys` verify its tokens if another API issues them. */
  async startNode(
    settings: object,
    ports: Ports,
    cluster: ClusterAccess,
    keys?: ChildOptions['keys'],
  ): Promise<RelayChild> {
    return this.#start({ settings, ports, cluster, ...(keys === undefined ? {} : { keys }) })
  }

  async #start(
    own: Pick<ChildOptions, 'settings' | 'ports' | 'failAt' | 'cluster'> & { keys?: ChildOptions['keys'] },
  ): Promise<RelayChild> {
    const options: ChildOptions = {
      ...this.#certificate,
      ca: this.ca,
      keys: await this.api.keys(),
      database: join(this.directory, 'relay.sqlite'),
      ...(this.files && { files: this.files }),
      ...own,
    }
    const child = fork(PROGRAM, [JSON.stringify(options)], {
      execArgv: ['--expose-gc'],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      // A killed process does not clean up.
      env: { ...process.env, TMPDIR: this.directory },
    })
    const running = watch(child)
    const first = await Promise.race([once(child, 'message'), running.exited])
    if (!Array.isArray(first))
      throw new Error(`The relay exited with ${first} before it was ready: ${running.errors()}`)
    return { ...running, ports: own.ports }
  }

  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true })
  }
}

function watch(child: ChildProcess): Omit<RelayChild, 'ports'> {
  const chunks: string[] = []
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => chunks.push(chunk))
  // The child's own 'close' event does not fire after a disconnect.
  const exited = Promise.all([once(child, 'exit'), child.stderr && once(child.stderr, 'close')]).then(
    ([[code, signal]]) => (signal ?? code) as NodeJS.Signals | number,
  )
  return {
    pid: child.pid ?? 0,
    exited,
    errors: () => chunks.join(''),
    rss: async (question = 'measure') => {
      child.send(question)
      const [{ rss }] = (await once(child, 'message')) as [{ rss: number }]
      return rss
    },
    kill: () => void child.kill('SIGKILL'),
    close: async () => {
      if (child.connected) child.disconnect()
      await exited
    },
  }
}
