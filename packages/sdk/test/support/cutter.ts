/** A network that fails when a test says so. */
import { CELL_BYTES, CELL_TYPES, StaticError } from '@static/protocol'
import type { CellStream, StreamHandlers, Target, Transport } from '../../src/ports/index.ts'

interface Line {
  readonly stream: CellStream
  readonly handlers: StreamHandlers
  open: boolean
}

/** The streams of one agent. */
export class Cutter {
  readonly #lines = new Set<Line>()
  #deaf: PromiseWithResolvers<void> | undefined
  #mute: PromiseWithResolvers<void> | undefined
  #losesAcks = false
  /** What the relay has sent, while it waits. */
  #held: Uint8Array[] | undefined

  /** For `AgentOptions.transport`. */
  readonly wrap = (transport: Transport): Transport => ({
    form: transport.form,
    dial: (target, handlers) => this.#dial(transport, target, handlers),
  })

  /** What the relay sends is lost from now on, until the stream is cut; fulfilled with the first loss. */
  deafen(): Promise<void> {
    this.#deaf = Promise.withResolvers()
    return this.#deaf.promise
  }

  /** What the agent sends is lost from now on, until the stream is cut; fulfilled with the first loss. */
  mute(): Promise<void> {
    this.#mute = Promise.withResolvers()
    return this.#mute.promise
  }

  /** Acknowledgements are lost from now on, until the stream is cut; everything else arrives. */
  loseAcks(): void {
    this.#losesAcks = true
  }

  /** What the relay sends waits from now on. */
  hold(): void {
    this.#held ??= []
  }

  /** What has waited arrives, all at once. */
  release(): void {
    const held = Buffer.concat(this.#held ?? [])
    this.#held = undefined
    for (const { handlers } of this.#lines) handlers.data(held)
  }

  /** Ends the stream without a word. */
  cut(): void {
    this.#deaf = undefined
    this.#mute = undefined
    this.#losesAcks = false
    this.#held = undefined
    for (const line of this.#lines) {
      this.#close(line, StaticError.of('transport_error', 'Cut by the test.'))
      line.stream.end()
    }
  }

  async #dial(transport: Transport, target: Target, handlers: StreamHandlers): Promise<CellStream> {
    const { promise, resolve } = Promise.withResolvers<Line>()
    const stream = await transport.dial(target, {
      data: (chunk) => {
        void promise.then(({ open }) => {
          this.#deaf?.resolve()
          if (!open || this.#deaf) return
          if (this.#held) this.#held.push(Uint8Array.from(chunk))
          else handlers.data(chunk)
        })
      },
      closed: (reason) => void promise.then((line) => this.#close(line, reason)),
    })
    const line: Line = { stream, handlers, open: true }
    this.#lines.add(line)
    resolve(line)
    return {
      write: (cells) => {
        this.#mute?.resolve()
        if (line.open && !this.#mute) stream.write(this.#losesAcks ? withoutAcks(cells) : cells)
      },
      end: () => stream.end(),
    }
  }

  #close(line: Line, reason: StaticError | undefined): void {
    this.#lines.delete(line)
    if (!line.open) return
    line.open = false
    line.handlers.closed(reason)
  }
}

/** The cells with cover in place of each acknowledgement. */
function withoutAcks(cells: Uint8Array): Uint8Array {
  const left = Uint8Array.from(cells)
  for (let at = 0; at < left.length; at += CELL_BYTES) {
    if (left[at] === CELL_TYPES.ack) left.fill(0, at, at + CELL_BYTES)
  }
  return left
}
