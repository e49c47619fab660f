/**
 * Name constraints (RFC 5280, 4.2.1.10), which keep a stolen CA key from signing for other hosts. Encoded and parsed
 * here because node:crypto does not expose extensions, and reading must not load the certificate library.
 *
 * According to the RFC, a permitted DNS name also permits its subdomains; it cannot be restricted further.
 */
import { addressBytes, addressText, type HostName } from './names.ts'

/** The extension's object identifier. */
export const NAME_CONSTRAINTS = '2.5.29.30'

const SEQUENCE = 0x30
const OCTET_STRING = 0x04
const OBJECT_IDENTIFIER = 0x06
const PERMITTED = 0xa0
const EXCLUDED = 0xa1
const EXTENSIONS = 0xa3
const DNS_NAME = 0x82
const IP_ADDRESS = 0x87
const OID_BYTES = '551d1e'

/** Encodes an extension value that permits these names and no other DNS name or IP address. */
export function encodeConstraints(names: readonly HostName[]): Buffer {
  const permitted = names.map(({ type, text }) =>
    type === 'dns' ? subtree(DNS_NAME, Buffer.from(text, 'ascii')) : subtree(IP_ADDRESS, withFullMask(text)),
  )
  // A name type without a permitted entry would be unconstrained, so each such type is excluded as a whole.
  const excluded: Buffer[] = []
  if (!names.some(({ type }) => type === 'dns')) excluded.push(subtree(DNS_NAME, Buffer.alloc(0)))
  if (!names.some(({ type }) => type === 'ip')) {
    excluded.push(subtree(IP_ADDRESS, Buffer.alloc(8)), subtree(IP_ADDRESS, Buffer.alloc(32)))
  }
  const parts = [permitted.length > 0 ? tlv(PERMITTED, ...permitted) : Buffer.alloc(0)]
  if (excluded.length > 0) parts.push(tlv(EXCLUDED, ...excluded))
  return tlv(SEQUENCE, ...parts)
}

/**
 * The names that a certificate (DER) permits; undefined if it has no constraints, or constraints that Static does not
 * write.
 */
export function readConstraints(certificate: Buffer): readonly HostName[] | undefined {
  try {
    const toBeSigned = children(children(certificate)[0]?.value)[0]?.value
    const extensions = children(toBeSigned).find(({ tag }) => tag === EXTENSIONS)?.value
    for (const extension of children(children(extensions)[0]?.value)) {
      const fields = children(extension.value)
      if (fields[0]?.tag !== OBJECT_IDENTIFIER || fields[0].value.toString('hex') !== OID_BYTES) continue
      const value = fields.find(({ tag }) => tag === OCTET_STRING)?.value
      return readPermitted(children(children(value)[0]?.value))
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
  return undefined
}

/** Whether constraints with these permitted names allow this name. */
export function permits(permitted: readonly HostName[], name: HostName): boolean {
  return permitted.some(
    ({ type, text }) =>
      type === name.type && (text === name.text || (type === 'dns' && name.text.endsWith(`.${text}`))),
  )
}

function readPermitted(parts: readonly DerElement[]): readonly HostName[] | undefined {
  const names: HostName[] = []
  for (const { value } of children(parts.find(({ tag }) => tag === PERMITTED)?.value)) {
    const [base] = children(value)
    if (base?.tag === DNS_NAME) {
      names.push({ type: 'dns', text: base.value.toString('ascii') })
    } else if (base?.tag === IP_ADDRESS && (base.value.length === 8 || base.value.length === 32)) {
      const half = base.value.length / 2
      if (!base.value.subarray(half).every((byte) => byte === 0xff)) return undefined
      names.push({ type: 'ip', text: addressText(base.value.subarray(0, half)) })
    } else {
      return undefined
    }
  }
  return names
}

function withFullMask(address: string): Buffer {
  const bytes = addressBytes(address)
  return Buffer.concat([bytes, Buffer.alloc(bytes.length, 0xff)])
}

function subtree(tag: number, value: Buffer): Buffer {
  return tlv(SEQUENCE, tlv(tag, value))
}

function tlv(tag: number, ...content: readonly Buffer[]): Buffer {
  const value = Buffer.concat(content)
  if (value.length < 0x80) return Buffer.concat([Buffer.from([tag, value.length]), value])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(value.length)
  const short = length.subarray(length.findIndex((byte) => byte !== 0))
  return Buffer.concat([Buffer.from([tag, 0x80 | short.length]), short, value])
}

interface DerElement {
  readonly tag: number
  readonly value: Buffer
}

/** Parses consecutive DER elements. Throws RangeError if the bytes are truncated. */
function children(bytes: Buffer = Buffer.alloc(0)): readonly DerElement[] {
  const found: DerElement[] = []
  for (let at = 0; at < bytes.length;) {
    const tag = bytes.readUInt8(at)
    let length = bytes.readUInt8(at + 1)
    let start = at + 2
    if (length >= 0x80) {
      const size = length & 0x7f
      length = bytes.readUIntBE(start, size)
      start += size
    }
    if (start + length > bytes.length) throw new RangeError('DER element is longer than its container')
    found.push({ tag, value: bytes.subarray(start, start + length) })
    at = start + length
  }
  return found
}
