/** The lying relay's end of a stream: cells and envelopes, and a record of every byte in either direction. */
import { CellJoiner, cutEnvelope, ENVELOPE_LIMITS, makeCell } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import { type AckRequest, AckRequestSchema, ClientMessageSchema, ServerMessageSchema } from '@static/protocol/relay'
import type { AgentId, RequestBody, ServerBody } from '../../src/ports/index.ts'
import type { MemoryPeer } from '@static/testkit/transport/memory'

/** Who takes what comes by a line. */
export interface LineOwner {
  request(line: Line, requestId: bigint, body: RequestBody): void
  acknowledged(line: Line, ack: AckRequest): void
  closed(line: Line): void
}

/** Every byte that passed. */
export class Tape {
  readonly #chunks: Uint8Array[] = []

  note(bytes: Uint8Array): void {
    this.#chunks.push(bytes)
  }

  /** Whether some bytes, or their hexadecimal or base64 form, have passed. */
  holds(canary: Uint8Array): boolean {
    const forms = formsOf(Buffer.from(canary))
    return this.#chunks.some((chunk) => {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      return forms.some((form) => bytes.includes(form))
    })
  }
}

/** A stream of one agent. */
export class Line {
  /** Known once the session is open. */
  agent: AgentId | undefined
  /** Welcomes come with the first Resume. */
  resumed = false
  readonly peer: MemoryPeer
  readonly #form: WireForm
  readonly #tape: Tape | undefined
  readonly #owner: LineOwner
  readonly #joiner = new CellJoiner(ENVELOPE_LIMITS.member)

  constructor(peer: MemoryPeer, form: WireForm, tape: Tape | undefined, owner: LineOwner) {
    this.peer = peer
    this.#form = form
    this.#tape = tape
    this.#owner = owner
  }

  /** What the agent sends. */
  data(chunk: Uint8Array): void {
    this.#tape?.note(chunk)
    this.#joiner.push(chunk, ({ type, payload }) => {
      if (type === 'ping') this.#write(makeCell('pong', payload))
      if (type === 'ack') {
        this.#owner.acknowledged(this, decodeEnvelope(this.#form, AckRequestSchema, payload, payload.length))
      }
      if (type !== 'envelope') return
      // A canary may lie across two cells.
      this.#tape?.note(payload)
      const { requestId, body } = decodeEnvelope(this.#form, ClientMessageSchema, payload, payload.length)
      if (body.case !== undefined) this.#owner.request(this, requestId, body)
    })
  }

  closed(): void {
    this.#owner.closed(this)
  }

  /** Answers a request, or tells something unasked (0). */
  say(requestId: bigint, body: ServerBody): void {
    const message = { $typeName: 'static.relay.v1.ServerMessage' as const, requestId, sessionToken: '', body }
    const envelope = encodeEnvelope(this.#form, ServerMessageSchema, message)
    this.#tape?.note(envelope)
    this.#write(cutEnvelope(envelope))
  }

  #write(cells: Uint8Array): void {
    this.#tape?.note(cells)
    this.peer.stream.write(cells)
  }
}

function formsOf(canary: Buffer): Buffer[] {
  const hex = canary.toString('hex')
  // Where it stands in a longer text decides between three spellings; their ends depend on what is around.
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), canary])
      .toString('base64')
      .replaceAll('=', '')
    return text.slice(shift === 0 ? 0 : shift + 1, -1)
  })
  const urls = base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))
  return [canary, ...[hex, hex.toUpperCase(), ...base64, ...urls].map((text) => Buffer.from(text))]
}
