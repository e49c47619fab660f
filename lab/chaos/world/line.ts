/** The way of one agent to the relay, TCP and UDP, on loopback: it can be cut, slowed down and made to lose packets. */
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Below } from '@static/testkit/random'

const HOST = '127.0.0.1'
/** How long TCP takes to notice that a packet is lost. */
const RESEND_MS = 200

/** The state of a way. */
export interface Weather {
  /** Nothing arrives. What TCP carries waits; datagrams are lost. */
  readonly isCut: boolean
  readonly delayMs: number
  /** Of a hundred packets. */
  readonly lost: number
}

const FAIR: Weather = { isCut: false, delayMs: 0, lost: 0 }

/** Where the relay listens. */
export interface Target {
  readonly grpcPort: number
  readonly quicPort: number
}

/** A way. */
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
    this.#udp = createSocket('udp4', (datagram, { port }) => this.#forward(datagram, port))
  }

  static async open(target: Target, below: Below): Promise<Line> {
    const line = new Line(target, below)
    line.#tcp.listen(0, HOST)
    line.#udp.bind(0, HOST)
    await Promise.all([once(line.#tcp, 'listening'), once(line.#udp, 'listening')])
    return line
  }

  /** Where the agent connects. */
  get ports(): Target {
    const address = this.#tcp.address()
    if (address === null || typeof address === 'string') throw new Error('The line has no port.')
    return { grpcPort: address.port, quicPort: this.#udp.address().port }
  }

  set(weather: Partial<Weather>): void {
    this.#weather = { ...FAIR, ...weather }
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }

  /** Ends all TCP connections; what was on the way is lost. */
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
    const server = dial(this.#target.grpcPort, HOST)
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

  /** One packet after the other. */
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

  #forward(datagram: Buffer, port: number): void {
    const known = this.#flows.get(String(port))
    const flow = known ?? createSocket('udp4')
    if (!known) {
      this.#flows.set(String(port), flow)
      // The relay may be off: datagrams are lost then.
      flow.on('error', () => {})
      flow.on('message', (answer) => this.#drop(() => this.#udp.send(answer, port, HOST)))
    }
    this.#drop(() => flow.send(datagram, this.#target.quicPort, HOST))
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
