/**
 * The line from one agent to a node of the relay, TCP and UDP, on loopback: it can be cut, slowed and made to lose
 * packets.
 */
import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Below } from '@static/testkit/random'

/** How long TCP takes to notice that a packet is lost. */
const RESEND_MS = 200

/** The state of a line. */
export interface Weather {
  /** Nothing arrives. What TCP carries waits; datagrams are lost. */
  readonly isCut: boolean
  readonly delayMs: number
  /** Packets lost out of a hundred. */
  readonly lost: number
}

const FAIR: Weather = { isCut: false, delayMs: 0, lost: 0 }

/** The address of a node of the relay, or of a line to it. */
export interface Target {
  readonly host: string
  readonly grpcPort: number
  readonly quicPort: number
}

/** A line. */
export class Line implements AsyncDisposable {
  readonly #target: Target
  readonly #below: Below
  readonly #tcp: Server
  readonly #udp: UdpSocket
  readonly #sockets = new Set<Socket>()
  readonly #flows = new Map<string, UdpSocket>()
  #weather: Weather = FAIR
  #changed = Promise.withResolvers<void>()

  private constructor(target: Target, below: Below) {
    this.#target = target
    this.#below = below
    this.#tcp = createServer((client) => this.#pass(client))
    this.#udp = createSocket('udp4', (datagram, from) => this.#forward(datagram, from))
  }

  /** Opens a line that begins at `entry`, where the agent connects. */
  static async open(entry: Target, target: Target, below: Below): Promise<Line> {
    const line = new Line(target, below)
    line.#tcp.listen(entry.grpcPort, entry.host)
    line.#udp.bind(entry.quicPort, entry.host)
    await Promise.all([once(line.#tcp, 'listening'), once(line.#udp, 'listening')])
    return line
  }

  set(weather: Partial<Weather>): void {
    this.#weather = { ...FAIR, ...weather }
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }

  /** Ends all TCP connections; data in transit is lost. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.set(FAIR)
    for (const socket of this.#sockets) socket.destroy()
    for (const flow of this.#flows.values()) flow.close()
    this.#udp.close()
    this.#tcp.close()
    await once(this.#tcp, 'close')
  }

  #pass(client: Socket): void {
    const server = dial(this.#target.grpcPort, this.#target.host)
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from)
      from.setNoDelay(true)
      // 'close' follows.
      from.on('error', () => {})
      from.on('close', () => {
        this.#sockets.delete(from)
        void this.#passes().then(() => to.destroy())
      })
      this.#carry(from, to).catch(() => to.destroy())
    }
  }

  /** Passes chunks of TCP on, in order. */
  async #carry(from: Socket, to: Socket): Promise<void> {
    for await (const chunk of from) {
      const { delayMs, lost } = this.#weather
      const late = delayMs + (this.#below(100) < lost ? RESEND_MS : 0)
      if (late > 0) await delay(late)
      await this.#passes()
      if (!to.write(chunk as Buffer)) await once(to, 'drain')
    }
    to.end()
  }

  async #passes(): Promise<void> {
    while (this.#weather.isCut) await this.#changed.promise
  }

  #forward(datagram: Buffer, { port, address }: Pick<RemoteInfo, 'port' | 'address'>): void {
    const known = this.#flows.get(String(port))
    const flow = known ?? createSocket('udp4')
    if (!known) {
      this.#flows.set(String(port), flow)
      // The relay may be off: datagrams are lost then.
      flow.on('error', () => {})
      flow.on('message', (answer) => this.#drop(() => this.#udp.send(answer, port, address)))
    }
    this.#drop(() => flow.send(datagram, this.#target.quicPort, this.#target.host))
  }

  /** Sends a datagram, later or not at all. */
  #drop(send: () => void): void {
    const { isCut, delayMs, lost } = this.#weather
    if (isCut || this.#below(100) < lost) return
    if (delayMs === 0) send()
    else setTimeout(() => this.#isOpen && send(), delayMs + this.#below(delayMs))
  }

  get #isOpen(): boolean {
    return this.#tcp.listening
  }
}
