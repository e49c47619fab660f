/**
 * Channel records as strings of bytes: about a fifth of the memory of the records themselves, and made from the same rows
 * as the database holds.
 */
import type { Value } from '@static/node/checksum'
import { emptyChannel, lowestCursor, placeMember } from '../../ledger/state.ts'
import { type ChannelRow, channelRow, readChannel } from '../../records/channel.ts'
import { type MemberRow, memberRow, readMember } from '../../records/member.ts'
import { type SenderRow, readSender, senderRow } from '../../records/sender.ts'
import type { Kept } from './kept.ts'

const CHANNEL_VALUES = 29
/** Excludes the channel's id, which members need not repeat. */
const MEMBER_VALUES = 17
const SENDER_VALUES = 10

/** The first byte of a value; numbers are stored as themselves plus `FIRST_NUMBER`. */
const NULL = 0
const BYTES = 1
const TEXT = 2
const FIRST_NUMBER = 3

const FIRST_BYTES = 4096
/** The longest number. */
const NUMBER_BYTES = 8

const NOTHING = new Uint8Array()

/** Collects values. */
class Packer {
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES)
  #length = 0

  put(value: Value): void {
    if (value === null) this.#number(NULL)
    else if (typeof value === 'number') this.#number(value + FIRST_NUMBER)
    else if (typeof value === 'string') this.#text(value)
    else this.#raw(value)
  }

  /** Returns the packed values, one character per byte, and starts again. */
  finish(): string {
    const packed = this.#bytes.toString('latin1', 0, this.#length)
    this.#length = 0
    return packed
  }

  #text(text: string): void {
    const length = Buffer.byteLength(text)
    this.#number(TEXT)
    this.#number(length)
    this.#reserve(length)
    this.#bytes.write(text, this.#length)
    this.#length += length
  }

  #raw(bytes: Uint8Array): void {
    this.#number(BYTES)
    this.#number(bytes.length)
    this.#reserve(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** Seven bits a byte, the lowest first. */
  #number(value: number): void {
    this.#reserve(NUMBER_BYTES)
    let rest = value
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) + 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.#bytes[this.#length++] = rest
  }

  #reserve(length: number): void {
    if (this.#length + length <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.#length + length))
    larger.set(this.#bytes)
    this.#bytes = larger
  }
}

/** Takes values in the order in which they were put. */
class Unpacker {
  readonly #bytes: Buffer
  #at = 0

  constructor(packed: string) {
    // Not from the pool: records would keep other data of the pool alive.
    this.#bytes = Buffer.allocUnsafeSlow(packed.length)
    this.#bytes.write(packed, 'latin1')
  }

  take(): Value {
    const start = this.#number()
    if (start === NULL) return null
    if (start >= FIRST_NUMBER) return start - FIRST_NUMBER
    const length = this.#number()
    const from = this.#at
    this.#at += length
    return start === TEXT ? this.#bytes.toString('utf8', from, this.#at) : this.#bytes.subarray(from, this.#at)
  }

  row(values: number): Value[] {
    return Array.from({ length: values }, () => this.take())
  }

  #number(): number {
    let value = 0
    for (let unit = 1; ; unit *= 0x80) {
      const byte = this.#bytes[this.#at++] ?? 0
      value += (byte % 0x80) * unit
      if (byte < 0x80) return value
    }
  }
}

const packer = new Packer()

/**
 * Packs a channel that has no changes to store. Fields that are not stored are lost, as if it had just been read from
 * the database.
 */
export function pack({ channel, version, membersAt }: Kept): string {
  const members = [...channel.members.values(), ...channel.former.values()]
  for (const value of [channel.number, version, Math.floor(membersAt), members.length, channel.senders.size]) {
    packer.put(value)
  }
  for (const value of channelRow(channel)) packer.put(value)
  for (const member of members) {
    const [, ...row] = memberRow(channel.id, member)
    for (const value of row) packer.put(value)
  }
  for (const sender of channel.senders.values()) for (const value of senderRow(sender)) packer.put(value)
  return packer.finish()
}

/** Unpacks a channel. */
export function unpack(packed: string): Kept {
  const values = new Unpacker(packed)
  const [number, version, membersAt, members, senders] = values.row(5) as [number, number, number, number, number]
  const channel = emptyChannel(readChannel(number, values.row(CHANNEL_VALUES) as unknown as ChannelRow))
  for (let at = 0; at < members; at++) {
    placeMember(channel, readMember([NOTHING, ...values.row(MEMBER_VALUES)] as unknown as MemberRow))
  }
  for (let at = 0; at < senders; at++) {
    const sender = readSender(values.row(SENDER_VALUES) as unknown as SenderRow)
    channel.senders.set(sender.agent, sender)
  }
  channel.acked = lowestCursor(channel)
  return { channel, version, membersAt }
}
