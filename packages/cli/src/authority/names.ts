/** Host names of a server: DNS names and IP addresses, in normal form. */
import { isIPv4, isIPv6 } from 'node:net'
import { domainToASCII } from 'node:url'
import { StaticError } from '@static/protocol'

/** A DNS name or an IP address. */
export interface HostName {
  readonly type: 'dns' | 'ip'
  /** The normal form: lower case, IDNs in ASCII, IPv6 addresses in their shortest form. */
  readonly text: string
}

/** The loopback names, which every authority and server certificate includes. */
export const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '::1']

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** Parses a name. Throws `invalid_request` for anything that a certificate should not contain, such as wildcards. */
export function parseHostName(name: string): HostName {
  if (isIPv4(name)) return { type: 'ip', text: name }
  // A zone (`fe80::1%eth0`) is meaningful on one machine only.
  if (isIPv6(name) && !name.includes('%')) {
    return { type: 'ip', text: new URL(`http://[${name}]`).hostname.slice(1, -1) }
  }
  const text = domainToASCII(name.endsWith('.') ? name.slice(0, -1) : name)
  const labels = text.split('.')
  // domainToASCII parses `127.1` and `0x7f.1` as addresses; no DNS name ends in a number.
  const numeric = /^\d+$/.test(labels.at(-1) ?? '')
  if (text.length > 253 || numeric || !labels.every((label) => LABEL.test(label))) {
    throw new StaticError(
      'invalid_request',
      `${JSON.stringify(name)} is neither a DNS name (without wildcards) nor an IP address.`,
    )
  }
  return { type: 'dns', text }
}

/** Parses a list of names and removes duplicates. Throws as `parseHostName`. */
export function parseHostNames(names: readonly string[]): readonly HostName[] {
  const byText = new Map<string, HostName>()
  for (const name of names) {
    const parsed = parseHostName(name)
    byText.set(parsed.text, parsed)
  }
  return [...byText.values()]
}

/** The 4 or 16 bytes of an address in normal form. */
export function addressBytes(text: string): Buffer {
  if (isIPv4(text)) return Buffer.from(text.split('.').map(Number))
  const [head = '', tail] = text.split('::')
  const left = groups(head)
  const right = groups(tail ?? '')
  return Buffer.concat([left, Buffer.alloc(16 - left.length - right.length), right])
}

/** The normal form of an address of 4 or 16 bytes. */
export function addressText(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join('.')
  const hex = bytes.toString('hex').match(/.{4}/g) ?? []
  return parseHostName(hex.join(':')).text
}

function groups(text: string): Buffer {
  if (text === '') return Buffer.alloc(0)
  const hex = text.split(':').map((group) => group.padStart(4, '0'))
  return Buffer.from(hex.join(''), 'hex')
}
