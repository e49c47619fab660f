/** The addresses and ports of a QUIC endpoint: both IPv4 and IPv6 if the machine has both. */
import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { StaticError } from '@static/protocol'

/**
 * The addresses to listen on: `localhost` is both loopback addresses, `0.0.0.0` and `::` are all addresses of both
 * families. The library's socket on `::` also accepts IPv4, so one is enough if the machine has IPv6.
 *
 * Throws `invalid_request` for a name without an address.
 */
export async function listenAddresses(host: string): Promise<readonly string[]> {
  if (host === 'localhost') return (await canBind('::1')) ? ['127.0.0.1', '::1'] : ['127.0.0.1']
  if (host === '0.0.0.0' || host === '::') return [(await canBind('::')) ? '::' : '0.0.0.0']
  if (isIP(host) !== 0) return [host]
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch (cause) {
    throw StaticError.of('invalid_request', `${JSON.stringify(host)} is not an address of this machine.`, { cause })
  }
}

/** A currently free port followed by enough other free ones; undefined if there was none at the first guess. */
export async function freePorts(address: string, count: number): Promise<number | undefined> {
  const first = await bind(address, 0)
  if (first === undefined || first + count - 1 > 65_535) return undefined
  for (let port = first + 1; port < first + count; port++)
    if ((await bind(address, port)) === undefined) return undefined
  return first
}

async function canBind(address: string): Promise<boolean> {
  return (await bind(address, 0)) !== undefined
}

async function bind(address: string, port: number): Promise<number | undefined> {
  const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4')
  try {
    socket.bind(port, address)
    await once(socket, 'listening')
    return socket.address().port
  } catch {
    return undefined
  } finally {
    socket.close()
  }
}
