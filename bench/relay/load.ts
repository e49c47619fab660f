/** The load: members of a channel on a relay, and bytes on the floor. */
import { connect } from 'node:http2'
import { randomBytes } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import { decodeEnvelope, type WireForm } from '@static/protocol/envelope'
import { SendMessageRequestSchema, ServerMessageSchema } from '@static/protocol/relay'
import { Agent, type Wire, type WireStream } from '@static/testkit/agent'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'

export type Kind = 'quic' | 'grpc'

/** 1 KiB of payload is about this much ciphertext. */
const CIPHERTEXT = randomBytes(1120)
/** Size of such a message on the wire: two cells. */
export const WIRE_BYTES = 2048
/** Agents acknowledge once per transaction; in a burst that is many messages. */
const ACK_EVERY = 16
const MESSAGE = new Uint8Array(WIRE_BYTES)

/** Ways to a server. */
export function wireTo(kind: Kind, ports: { quicPort: number; httpPort: number }, ca: string): Wire {
  return kind === 'quic' ? quicWire({ port: ports.quicPort, ca }) : grpcWire({ port: ports.httpPort, ca })
}

/**
 * A channel with one sender and some readers. They do as little as the protocol allows, so that the relay and not the
 * load is what is measured: readers count envelopes and decode only the one that they acknowledge.
 */
export class Crowd {
  readonly #sender: Agent
  readonly #readers: Agent[]
  readonly #channel: Uint8Array
  readonly #counts: number[]
  #answered = 0
  #sent = 0
  #step: () => void = () => {}

  private constructor(sender: Agent, readers: Agent[], channel: Uint8Array) {
    this.#sender = sender
    this.#readers = readers
    this.#channel = channel
    this.#counts = readers.map(() => 0)
    for (const [at, reader] of readers.entries()) {
      reader.onEnvelope = (envelope) => {
        const count = (this.#counts[at] ?? 0) + 1
        this.#counts[at] = count
        if (count % ACK_EVERY === 0) acknowledge(reader, channel, envelope)
        this.#step()
      }
    }
    let own = 0
    sender.onEnvelope = (envelope) => {
      // The relay sends the answer and the entry without its body; the answer's first field is the request id.
      if (!isPush(sender.form, envelope)) {
        this.#answered++
        this.#step()
        return
      }
      own++
      if (own % ACK_EVERY === 0) acknowledge(sender, channel, envelope)
    }
  }

  static async gather(wire: Wire, token: string, size: number, name: string): Promise<Crowd> {
    const sender = await Agent.connect(wire, { jwt: token })
    const channel = await sender.createChannel(name)
    const readers: Agent[] = []
    for (let at = 0; at < size; at++) readers.push(await Agent.connect(wire, { jwt: token }))
    await sender.commit(channel, 0n, { adds: readers.map(({ id }) => id) })
    await sender.next('deliverCommit')
    for (const reader of readers) {
      await reader.request('resume', { channelIds: [channel] })
      await reader.next('deliverWelcome')
    }
    return new Crowd(sender, readers, channel)
  }

  /** Sends messages, this many in flight; resolves when all are answered and every reader has all. */
  say(messages: number, window: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const last = this.#sent + messages
    this.#step = () => {
      while (this.#sent < last && this.#sent - this.#slowest() < window) this.#send()
      if (this.#answered === last && this.#slowest() === last) resolve()
    }
    this.#step()
    return promise
  }

  close(): void {
    for (const agent of [this.#sender, ...this.#readers]) agent.close()
  }

  /** Number of messages that are answered and have reached all readers. */
  #slowest(): number {
    let least = this.#answered
    for (const count of this.#counts) if (count < least) least = count
    return least
  }

  #send(): void {
    this.#sent++
    const value = create(SendMessageRequestSchema, {
      channelId: this.#channel,
      slot: 1n,
      counter: BigInt(this.#sent),
      messageId: newMessageId(),
      ciphertext: CIPHERTEXT,
    })
    this.#sender.post({ case: 'sendMessage', value })
  }
}

/** Time first, as agents make them: the relay's index of ids grows at its end. */
function newMessageId(): Uint8Array {
  const id = randomBytes(16)
  id.writeUIntBE(Date.now(), 0, 6)
  return id
}

/** Whether an envelope has no request id, that is, starts with a different field. */
function isPush(form: WireForm, envelope: Uint8Array): boolean {
  return form === 'cbor' ? envelope[1] !== 1 : envelope[0] !== 8
}

function acknowledge(agent: Agent, channel: Uint8Array, envelope: Uint8Array): void {
  const { body } = decodeEnvelope(agent.form, ServerMessageSchema, envelope, envelope.length)
  if (body.case === 'deliverMessage') agent.ack(channel, body.value.index)
}

/** Streams on the floor. */
export class Floor {
  readonly #streams: WireStream[]
  #waiting: () => void = () => {}
  #received = 0

  private constructor(streams: WireStream[]) {
    this.#streams = streams
  }

  static async open(
    kind: Kind,
    ports: { quicPort: number; httpPort: number },
    ca: string,
    count: number,
  ): Promise<Floor> {
    const floor = new Floor([])
    const data = (bytes: Uint8Array): void => floor.#take(bytes.length)
    for (let at = 0; at < count; at++) {
      if (kind === 'quic') {
        const stream = await quicWire({ port: ports.quicPort, ca }).open({ data, closed: () => {} })
        floor.#streams.push(stream)
        // A QUIC stream is there for the server when its first bytes come.
        const echoed = floor.#until(1)
        stream.write(Buffer.of(0))
        await echoed
      } else {
        const session = connect(`https://127.0.0.1:${ports.httpPort}`, { ca, servername: 'localhost' })
        const stream = session.request({ ':method': 'POST', ':path': '/' }, { endStream: false })
        stream.on('data', (chunk: Buffer) => data(chunk))
        stream.on('error', () => {})
        floor.#streams.push({
          write: (bytes) => void stream.write(bytes),
          end: () => {
            stream.close()
            session.close()
          },
        })
        const echoed = floor.#until(1)
        stream.write(Buffer.of(0))
        await echoed
      }
    }
    return floor
  }

  /** Round trips on the first stream, this many in flight. */
  echo(messages: number, window: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    let sent = 0
    const more = (): void => {
      const back = Math.floor(this.#received / WIRE_BYTES)
      for (; sent < messages && sent - back < window; sent++) this.#streams[0]?.write(MESSAGE)
      if (back === messages) resolve()
    }
    this.#received = 0
    this.#waiting = more
    more()
    return promise
  }

  /** Waits for bytes that the server writes by itself. */
  arrival(bytes: number): Promise<void> {
    return this.#until(bytes)
  }

  close(): void {
    for (const stream of this.#streams) stream.end()
  }

  #until(bytes: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#received = 0
    this.#waiting = () => {
      if (this.#received >= bytes) resolve()
    }
    return promise
  }

  #take(length: number): void {
    this.#received += length
    this.#waiting()
  }
}
