/**
 * Addresses and ports of this machine. Ports are for servers that are restarted: they are below the ephemeral range,
 * from which a client might otherwise take them meanwhile.
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'

const FIRST = 20_000
const COUNT = 12_000
const TRIES = 50
/** A loopback address at which no other program listens. */
const CLAIMS = '127.0.0.2'

const own = Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? [])

/** The loopback addresses of this machine: containers often have no IPv6. */
export const LOOPBACKS: readonly string[] = ['127.0.0.1', '::1'].filter((address) => own.includes(address))

/** A port that is free for UDP and TCP now. */
export async function quietPort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if ((await claim(port)) && (await isFree(port))) return port
  }
  throw new Error('Found no free port.')
}

/** Reserves this port among test processes for the lifetime of this process. */
async function claim(port: number): Promise<boolean> {
  const held = createServer()
  try {
    held.listen(port, CLAIMS)
    await once(held, 'listening')
    held.unref()
    return true
  } catch {
    return false
  }
}

async function isFree(port: number): Promise<boolean> {
  const udp = createSocket('udp4')
  const tcp = createServer()
  try {
    udp.bind(port, '127.0.0.1')
    await once(udp, 'listening')
    tcp.listen(port, '127.0.0.1')
    await once(tcp, 'listening')
    return true
  } catch {
    return false
  } finally {
    udp.close()
    tcp.close()
  }
}
