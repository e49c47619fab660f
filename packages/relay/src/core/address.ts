/** Network addresses, in the form that limits count by. */

/** An address from its 4 or 16 bytes; undefined for other lengths. */
export function addressText(bytes: Uint8Array): string | undefined {
  if (bytes.length === 4) return bytes.join('.')
  if (bytes.length !== 16) return undefined
  const groups: string[] = []
  for (let at = 0; at < 16; at += 2) groups.push((((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16))
  return groups.join(':')
}

/** What limits count as one address: an IPv4 address (also mapped into IPv6), or the /64 network of one IPv6 user. */
export function addressKey(address: string): string {
  if (!address.includes(':')) return address
  const mapped = /^(?:::|0:0:0:0:0:)ffff:(?:(\d+\.\d+\.\d+\.\d+)|([\da-f]{1,4}):([\da-f]{1,4}))$/i.exec(address)
  if (mapped) return mapped[1] ?? [mapped[2], mapped[3]].map(twoBytes).join('.')
  const [head = '', tail = ''] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  if (address.includes('::')) {
    const rest = tail === '' ? [] : tail.split(':')
    while (groups.length + rest.length < 8) groups.push('0')
    groups.push(...rest)
  }
  const network = groups.slice(0, 4).map((group) => group.replace(/^0+(?=.)/, '').toLowerCase())
  return `${network.join(':')}::/64`
}

function twoBytes(group = ''): string {
  const value = Number.parseInt(group, 16)
  return `${value >>> 8}.${value & 0xff}`
}
