/** Hosts as in URLs, with what every platform has of them: the results of node:net and node:url. */

const BYTE = '(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])'
const IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`)

export function isIPv4(text: string): boolean {
  return IPV4.test(text)
}

/** Whether it is an IPv6 address, without brackets and without a zone. */
export function isIPv6(text: string): boolean {
  return /^[\da-f:.]+$/i.test(text) && URL.canParse(`https://[${text}]`)
}

/** A domain in ASCII (Punycode); empty if it is none. */
export function asciiDomain(text: string): string {
  // A host that cannot be set stays what it was, so two that differ tell that.
  const [one, other] = ['ws://x', 'ws://y'].map((base) => {
    const url = new URL(base)
    url.hostname = text
    return url.hostname
  })
  return one !== undefined && one === other ? one : ''
}
