/** A man in the middle of every line, who sees and changes the messages of agents and relay, as a lying relay can. */
import { CellJoiner, type CellEvent, cutEnvelope, makeCell } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import {
  type ClientMessage,
  ClientMessageSchema,
  type ServerMessage,
  ServerMessageSchema,
} from '@static/protocol/relay'

/** One line of an agent, as its man in the middle sees it. */
export interface MiddleLine {
  /** The name of the agent's machine. */
  readonly agent: string
  /** Says something to the agent. */
  say(message: ServerMessage): void
}

/** The man in the middle. */
export interface Middle {
  /** An agent asks. Returns what reaches the relay. */
  asked(line: MiddleLine, message: ClientMessage): readonly ClientMessage[]
  /** An agent acknowledges. Returns whether the relay hears of it. */
  acknowledged(line: MiddleLine): boolean
  /** The relay answers or pushes something. Returns what reaches the agent. */
  said(line: MiddleLine, message: ServerMessage): readonly ServerMessage[]
}

/** Longer than anything that either side takes. */
const LIMIT = 1 << 26

/** The middle of one line: takes cells apart and puts them together again. */
export class Tap implements MiddleLine {
  readonly agent: string
  readonly #middle: Middle
  readonly #form: WireForm
  readonly #write: (cells: Uint8Array) => void
  readonly #up = new CellJoiner(LIMIT)
  readonly #down = new CellJoiner(LIMIT)

  constructor(middle: Middle, agent: string, form: WireForm, write: (cells: Uint8Array) => void) {
    this.#middle = middle
    this.agent = agent
    this.#form = form
    this.#write = write
  }

  say(message: ServerMessage): void {
    this.#write(cutEnvelope(encodeEnvelope(this.#form, ServerMessageSchema, message)))
  }

  /** Takes the agent's data. Returns what reaches the relay. */
  up(bytes: Uint8Array): Uint8Array {
    const cells: Uint8Array[] = []
    this.#up.push(bytes, (event) => {
      if (event.type === 'envelope') {
        const message = decodeEnvelope(this.#form, ClientMessageSchema, event.payload.slice(), LIMIT)
        for (const passed of this.#middle.asked(this, message))
          cells.push(cutEnvelope(encodeEnvelope(this.#form, ClientMessageSchema, passed)))
      } else if (event.type !== 'ack' || this.#middle.acknowledged(this)) cells.push(loneCell(event))
    })
    return Buffer.concat(cells)
  }

  /** Takes the relay's data. */
  down(bytes: Uint8Array): void {
    this.#down.push(bytes, (event) => {
      if (event.type !== 'envelope') return this.#write(loneCell(event))
      const message = decodeEnvelope(this.#form, ServerMessageSchema, event.payload.slice(), LIMIT)
      for (const passed of this.#middle.said(this, message)) this.say(passed)
    })
  }
}

function loneCell({ type, payload }: CellEvent): Uint8Array {
  return type === 'envelope' ? cutEnvelope(payload) : makeCell(type, payload)
}
