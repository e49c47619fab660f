/** Core NATS as the wire of the bus: nothing is stored in it, and a node starts and works without it. */
import { readFileSync } from 'node:fs'
import { connect, credsAuthenticator, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import { StaticError } from '@static/protocol'
import type { BusWire, OpenWire, WireListener } from '../ports.ts'

/** How to reach NATS. */
export interface NatsOptions {
  /** `nats://` or `tls://` URLs of one cluster, with user and password or a token if it needs them. */
  readonly servers: readonly string[]
  /** CA of the servers' certificates, PEM; undefined: Node's default authorities. */
  readonly ca?: string | undefined
  /** Path of a NATS credentials file. */
  readonly credentials?: string | undefined
  /** Reports once when NATS is unreachable or refuses the node, and once when it is back. */
  readonly onState: (connected: boolean, error: unknown) => void
}

const RETRY_MS = 1000
/** Used until a server states its own limit. */
const DEFAULT_MAX_BYTES = 1024 * 1024
/** Unsent bytes beyond which messages are dropped: a node that misses one reads the log. */
const MAX_UNSENT_BYTES = 32 * 1024 * 1024
const PING_MS = 5000
/**
 * The interval between probes of the server, and how many may go unanswered. Missed probes are counted rather than
 * timed, because this process may itself have been paused.
 */
const PROBE_MS = 250
const MAX_UNANSWERED = 3
const CONNECT_MS = 5000

/**
 * Makes the wire.
 *
 * @throws {StaticError} `invalid_request` for an invalid URL or an unreadable credentials file
 */
export function natsWire(options: NatsOptions): OpenWire {
  const settings = connectionOptions(options)
  return (listener) => new NatsWire(settings, options.onState, listener)
}

/**
 * Options for each server: the library would check the certificate of a server named by its address against
 * `localhost`.
 */
function connectionOptions({ servers, ca, credentials }: NatsOptions): NodeConnectionOptions[] {
  const urls = servers.map(serverUrl)
  const [first] = urls
  const secure = urls.some(({ protocol }) => protocol === 'tls:')
  const user = first?.username ? decodeURIComponent(first.username) : undefined
  const password = first?.password ? decodeURIComponent(first.password) : undefined
  const authenticator = credentials === undefined ? undefined : credsAuthenticator(readCredentials(credentials))
  return urls.map(({ host, hostname }) => ({
    servers: host,
    name: 'static relay',
    noEcho: true,
    timeout: CONNECT_MS,
    reconnect: false,
    pingInterval: PING_MS,
    maxPingOut: 2,
    ...(secure ? { tls: tlsOptions(hostname, ca) } : {}),
    ...(authenticator ? { authenticator } : {}),
    ...(user === undefined ? {} : password === undefined ? { token: user } : { user, pass: password }),
  }))
}

/** Without a server name, Node checks the certificate against `host`, which the library passes on. */
function tlsOptions(hostname: string, ca: string | undefined): { host: string; ca?: string } {
  return { host: hostname.replace(/^\[|\]$/g, ''), ...(ca === undefined ? {} : { ca }) }
}

function serverUrl(text: string): URL {
  const url = URL.parse(text)
  if (url && (url.protocol === 'nats:' || url.protocol === 'tls:') && url.hostname !== '') return url
  const shown = JSON.stringify(text.replace(/\/\/[^/]*@/, '//…@').slice(0, 100))
  throw StaticError.of('invalid_request', `Invalid NATS URL ${shown}. Use nats://host:4222 or tls://host:4222.`)
}

function readCredentials(path: string): Uint8Array {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw StaticError.of('invalid_request', `The NATS credentials ${path} cannot be read.`, { cause })
  }
}

/** A connection to one of the servers, redialed whenever it ends. */
class NatsWire implements BusWire {
  readonly #listener: WireListener
  readonly #onState: NatsOptions['onState']
  readonly #subjects = new Map<string, { unsubscribe(): void } | undefined>()
  #connection: NatsConnection | undefined
  #connected: boolean | undefined
  #closing = false
  #unsentBytes = 0
  #isFlushing = false
  readonly #timer: NodeJS.Timeout
  #isProbing = false
  #unanswered = 0

  constructor(settings: readonly NodeConnectionOptions[], onState: NatsOptions['onState'], listener: WireListener) {
    this.#listener = listener
    this.#onState = onState
    this.#timer = setInterval(() => this.#probe(), PROBE_MS).unref()
    void this.#run(settings)
  }

  get connected(): boolean {
    return this.#connected === true
  }

  get hears(): boolean {
    return this.connected && this.#unanswered < MAX_UNANSWERED
  }

  get maxBytes(): number {
    return this.#connection?.info?.max_payload ?? DEFAULT_MAX_BYTES
  }

  publish(subject: string, bytes: Uint8Array): void {
    const connection = this.#connection
    if (!connection || !this.connected || bytes.length > this.maxBytes) return
    if (this.#unsentBytes > MAX_UNSENT_BYTES) return
    try {
      connection.publish(subject, bytes)
    } catch {
      // It has just ended; the status reports that.
      return
    }
    this.#unsentBytes += bytes.length
    if (!this.#isFlushing) void this.#flush(connection)
  }

  subscribe(subject: string): void {
    if (!this.#subjects.has(subject)) this.#subjects.set(subject, this.#begin(subject))
  }

  unsubscribe(subject: string): void {
    this.#subjects.get(subject)?.unsubscribe()
    this.#subjects.delete(subject)
  }

  async close(): Promise<void> {
    this.#closing = true
    clearInterval(this.#timer)
    this.#connected = false
    await this.#connection?.close()
  }

  /** Once a flush is answered, the server has everything sent before it. */
  async #flush(connection: NatsConnection): Promise<void> {
    this.#isFlushing = true
    try {
      // Include what arrives meanwhile: above the limit, no later message would start another flush.
      while (this.#unsentBytes > 0) {
        const bytes = this.#unsentBytes
        await connection.flush()
        this.#unsentBytes = Math.max(0, this.#unsentBytes - bytes)
      }
    } catch {
      // The connection has ended, and everything unsent is lost.
      this.#unsentBytes = 0
    }
    this.#isFlushing = false
  }

  /** The library's own pings would notice a silently lost connection only after many seconds. */
  #probe(): void {
    const connection = this.#connection
    if (!connection || !this.connected) return
    if (this.#isProbing) {
      this.#unanswered += 1
      if (this.#unanswered === MAX_UNANSWERED) this.#listener.changed()
      return
    }
    this.#isProbing = true
    connection.flush().then(
      () => this.#answered(),
      () => this.#answered(),
    )
  }

  #answered(): void {
    const wasSilent = this.connected && !this.hears
    this.#isProbing = false
    this.#unanswered = 0
    if (wasSilent) this.#listener.changed()
  }

  /** Tries the servers in turn. Pauses after each round, and reports a round in which none was reachable. */
  async #run(settings: readonly NodeConnectionOptions[]): Promise<void> {
    while (!this.#closing) {
      let failure: unknown
      for (const each of settings) {
        try {
          if (!this.#closing) await this.#use(await connect(each))
        } catch (error) {
          failure = error
        }
      }
      this.#state(false, failure)
      if (!this.#closing) await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
  }

  /** Runs until the connection ends. */
  async #use(connection: NatsConnection): Promise<void> {
    this.#connection = connection
    if (this.#closing) return await connection.close()
    this.#unsentBytes = 0
    for (const subject of this.#subjects.keys()) this.#subjects.set(subject, this.#begin(subject))
    this.#state(true)
    for await (const { type } of connection.status()) {
      if (type === 'disconnect') this.#state(false, new Error('the connection to NATS was lost'))
      if (type === 'slowConsumer') this.#listener.changed()
    }
    this.#state(false, await connection.closed())
  }

  #state(connected: boolean, error?: unknown): void {
    if (this.#closing || connected === this.#connected) return
    this.#connected = connected
    this.#isProbing = false
    this.#unanswered = 0
    this.#onState(connected, error)
    this.#listener.changed()
  }

  #begin(subject: string): { unsubscribe(): void } | undefined {
    const connection = this.#connection
    if (!connection || connection.isClosed()) return undefined
    return connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) this.#listener.received(message.subject, message.data)
      },
    })
  }
}
