import { networkInterfaces } from 'node:os'

const own = Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? [])

/** The loopback addresses of this machine: containers often have no IPv6. */
export const LOOPBACKS: readonly string[] = ['127.0.0.1', '::1'].filter((address) => own.includes(address))
