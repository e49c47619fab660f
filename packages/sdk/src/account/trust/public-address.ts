/** Addresses of the public internet: a name that somebody else controls must not lead to a service inside. */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** Ranges that are not for the public (RFC 6890 and its registry). */
const INSIDE_V4: readonly (readonly [string, number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]
/** Everything outside of 2000::/3, and inside it examples and addresses that contain one of IPv4. */
const INSIDE_V6: readonly (readonly [string, number])[] = [
  ['::', 3],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['4000::', 2],
  ['8000::', 1],
]

// Two lists: one would take every address of IPv4 for the one of IPv6 that contains it.
const [insideV4, insideV6] = [new BlockList(), new BlockList()]
for (const [network, bits] of INSIDE_V4) insideV4.addSubnet(network, bits, 'ipv4')
for (const [network, bits] of INSIDE_V6) insideV6.addSubnet(network, bits, 'ipv6')

/** Whether an address, as DNS gives it, is one of the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !insideV4.check(address, 'ipv4')
  // Colons alone: `::ffff:10.0.0.1%eth0` and its like are not public.
  return isIPv6(address) && /^[\da-f:]+$/i.test(address) && !insideV6.check(address, 'ipv6')
}
