/** Hosts as in URLs, using only what every platform provides. The results match node:net and node:url. */

const BYTE = '(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])'
const IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`)

export function isIPv4(text: string): boolean {
  return IPV4.test(text)
}

/** Whether it is an IPv6 address, without brackets and without a zone. */
export function isIPv6(text: string): boolean {
  return /^[\da-f:.]+$/i.test(text) && URL.canParse(`https://[${text}]`)
}

/** A domain in ASCII (Punycode); empty if it is not one. */
export function asciiDomain(text: string): string {
  // A host that cannot be set keeps its value, so different results reveal that.
  const [one, other] = ['ws://x', 'ws://y'].map((base) => {
    const url = new URL(base)
    url.hostname = text
    return url.hostname
  })
  return one !== undefined && one === other ? one : ''
}
