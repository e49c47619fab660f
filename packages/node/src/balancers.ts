/**
 * Load balancers that forward connections and announce their clients. Otherwise, all clients would share the balancer's
 * address in limits and logs. From these peers, the header of the PROXY protocol is mandatory; announcements by other
 * peers are not read.
 */
import { BlockList, isIP, isIPv4, type Socket } from 'node:net'
import { StaticError } from '@static/protocol'
import { isLoopbackAddress, plainAddress } from './address.ts'
import { readProxyHeader } from './proxy-protocol.ts'

/** Limits on balancers before they have announced their clients. */
interface Limits {
  /** How long a balancer may take to send its header, in milliseconds. It sends the header first. */
  readonly headerMs: number
  /** The number of connections that may wait for it at once. */
  readonly waiting: number
}

const LIMITS: Limits = { headerMs: 5_000, waiting: 1_000 }

/** The parts of a socket that identify its connection: libraries wrap the known socket in others. */
type Ends = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'>

export class Balancers {
  readonly #list = new BlockList()
  readonly #limits: Limits
  /** The clients of the balancers' open connections, by connection. */
  readonly #clients = new Map<string, string>()
  #waiting = 0

  /**
   * `addresses` are IP addresses and networks such as 10.0.0.0/8.
   *
   * @throws {StaticError} `invalid_request` if one is neither
   */
  constructor(addresses: readonly string[] = [], limits: Partial<Limits> = {}) {
    this.#limits = { ...LIMITS, ...limits }
    for (const text of addresses) add(this.#list, text)
  }

  /**
   * The client address of a new connection, before its first byte is handled. Undefined if the connection was refused.
   */
  clientOf(socket: Socket): string | Promise<string | undefined> {
    const peer = plainAddress(socket.remoteAddress)
    return this.#has(peer) ? this.#announced(socket, peer) : peer
  }

  /** The client address that a balancer announced; undefined if the connection is not a balancer's. */
  announcedOn(socket: Ends): string | undefined {
    return this.#clients.size === 0 ? undefined : this.#clients.get(nameOf(socket))
  }

  /** The client address of an open connection, for limits and logs. */
  addressOf(socket: Ends): string {
    return this.announcedOn(socket) ?? plainAddress(socket.remoteAddress)
  }

  /** Whether the peer is a program on this machine. Balancers and the clients they announce never count as local. */
  isLocal({ remoteAddress }: Ends): boolean {
    const peer = plainAddress(remoteAddress)
    return isLoopbackAddress(peer) && !this.#has(peer)
  }

  #has(peer: string): boolean {
    const family = isIP(peer)
    return family !== 0 && this.#list.check(peer, family === 4 ? 'ipv4' : 'ipv6')
  }

  async #announced(socket: Socket, peer: string): Promise<string | undefined> {
    socket.on('error', () => {})
    if (this.#waiting >= this.#limits.waiting) {
      socket.destroy()
      return undefined
    }
    this.#waiting++
    const client = await readClient(socket, peer, this.#limits.headerMs)
    this.#waiting--
    if (client === undefined) {
      socket.destroy()
      return undefined
    }
    const name = nameOf(socket)
    this.#clients.set(name, client)
    socket.once('close', () => this.#clients.delete(name))
    return client
  }
}

/** Reads the header, and nothing after it. Resolves to undefined if it does not arrive in time or is refused. */
function readClient(socket: Socket, peer: string, ms: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  let bytes = Buffer.alloc(0)
  const read = (): void => {
    const chunk = socket.read() as Buffer | null
    if (chunk === null) return
    bytes = Buffer.concat([bytes, chunk])
    const header = readProxyHeader(bytes)
    if (header.state === 'partial') return
    if (header.state === 'invalid') return end(undefined)
    if (bytes.length > header.length) socket.unshift(bytes.subarray(header.length))
    end(header.address === undefined ? peer : plainAddress(header.address))
  }
  const gone = (): void => end(undefined)
  const late = setTimeout(gone, ms)
  const end = (client: string | undefined): void => {
    clearTimeout(late)
    socket.off('readable', read).off('end', gone).off('close', gone)
    resolve(client)
  }
  socket.on('readable', read).on('end', gone).on('close', gone)
  return promise
}

function nameOf({ remoteAddress, remotePort, localAddress, localPort }: Ends): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}

function add(list: BlockList, text: string): void {
  const [address = '', prefix, ...more] = text.split('/')
  const family = isIPv4(address) ? 'ipv4' : 'ipv6'
  const most = family === 'ipv4' ? 32 : 128
  const isPrefix = prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= most)
  if (isIP(address) === 0 || address.includes('%') || !isPrefix || more.length > 0) {
    const what = `${JSON.stringify(text)} is neither an IP address nor a network.`
    throw StaticError.of('invalid_request', `${what} Name balancers such as 192.0.2.7 or 10.0.0.0/8.`)
  }
  list.addSubnet(address, prefix === undefined ? most : Number(prefix), family)
}
