/**
 * Reads what tcpdump writes: a head of 24 bytes, then for each packet 16 bytes and the packet itself
 * (https://www.tcpdump.org/manpages/pcap-savefile.5.html). Of the packets: Ethernet, IPv4 or IPv6 without extension
 * headers, TCP or UDP. Anything else is left out.
 */

/** One packet, as an observer on the path sees it. */
export interface Packet {
  /** In seconds since 1970. */
  readonly time: number
  readonly protocol: 'tcp' | 'udp'
  readonly from: number
  readonly to: number
  /** Bytes after the TCP or UDP header in the packet, even if fewer were captured. */
  readonly length: number
  /** TCP had sent all of its bytes before: no acknowledgement came in time. */
  readonly isRepeat: boolean
}

const MAGIC = 0xa1b2c3d4
const ETHERNET = 1
const FILE_HEAD = 24
const PACKET_HEAD = 16
const ETHERNET_HEAD = 14
const IPV6_HEAD = 40
const UDP_HEAD = 8

/**
 * The packets of a capture, in order. A last one that was cut off by the end of the file is left out.
 *
 * @throws {RangeError} when it is not a capture of this machine's kind
 */
export function* readPackets(file: Buffer): Generator<Packet> {
  if (file.length < FILE_HEAD || file.readUInt32LE(0) !== MAGIC || file.readUInt32LE(20) !== ETHERNET) {
    throw new RangeError('This is not a capture of Ethernet packets in little-endian microseconds.')
  }
  const isRepeat = repeats()
  let at = FILE_HEAD
  while (at + PACKET_HEAD <= file.length) {
    const time = file.readUInt32LE(at) + file.readUInt32LE(at + 4) / 1e6
    const captured = file.readUInt32LE(at + 8)
    const start = at + PACKET_HEAD
    at = start + captured
    if (at > file.length) return
    const segment = readSegment(file.subarray(start, at), time)
    if (!segment) continue
    const { protocol, from, to, length } = segment
    yield { time, protocol, from, to, length, isRepeat: isRepeat(segment) }
  }
}

interface Segment extends Omit<Packet, 'isRepeat'> {
  /** TCP: the number of its first byte, which wraps after 2³² bytes. */
  readonly sequence?: number
}

/** Tells for each packet, in order, whether its bytes were sent before. */
function repeats(): (segment: Segment) => boolean {
  const ends = new Map<string, number>()
  return ({ from, to, length, sequence }) => {
    if (sequence === undefined || length === 0) return false
    const way = `${from} ${to}`
    const end = sequence + length
    const last = ends.get(way)
    // As a signed 32-bit number, the difference is right even where sequences wrap.
    if (last !== undefined && ((end - last) | 0) <= 0) return true
    ends.set(way, end)
    return false
  }
}

function readSegment(frame: Buffer, time: number): Segment | undefined {
  const network = networkOf(frame)
  if (!network) return undefined
  const { at, bytes, protocol } = network
  const [from, to] = [frame.readUInt16BE(at), frame.readUInt16BE(at + 2)]
  if (protocol === 'udp') return { time, protocol, from, to, length: bytes - UDP_HEAD }
  const head = (frame.readUInt8(at + 12) >>> 4) * 4
  return { time, protocol, from, to, length: bytes - head, sequence: frame.readUInt32BE(at + 4) }
}

/** Where the transport's head begins, and how long it and what follows are. */
function networkOf(frame: Buffer): { at: number; bytes: number; protocol: 'tcp' | 'udp' } | undefined {
  const type = frame.readUInt16BE(12)
  if (type === 0x0800) {
    const head = (frame.readUInt8(ETHERNET_HEAD) & 15) * 4
    const protocol = protocolOf(frame.readUInt8(ETHERNET_HEAD + 9))
    return protocol && { at: ETHERNET_HEAD + head, bytes: frame.readUInt16BE(ETHERNET_HEAD + 2) - head, protocol }
  }
  if (type !== 0x86dd) return undefined
  const protocol = protocolOf(frame.readUInt8(ETHERNET_HEAD + 6))
  return protocol && { at: ETHERNET_HEAD + IPV6_HEAD, bytes: frame.readUInt16BE(ETHERNET_HEAD + 4), protocol }
}

function protocolOf(number: number): 'tcp' | 'udp' | undefined {
  if (number === 6) return 'tcp'
  return number === 17 ? 'udp' : undefined
}
