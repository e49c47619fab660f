/** The network of an agent that hears nothing for a while: what has come meanwhile, it hears after its own words. */
import type { CellStream, RelaySession, StreamHandlers, Transport } from '../../src/ports/index.ts'

export class LateListener {
  /** What has come while it does not listen. */
  #unheard: (() => void)[] | undefined
  #hearsAfterWrite = false
  readonly #resumed = Promise.withResolvers<void>()

  /** Fulfilled when the relay has told the agent where its channels stand: only then does it send at once. */
  get resumed(): Promise<void> {
    return this.#resumed.promise
  }

  /** From now on nothing is heard. */
  stopListening(): void {
    this.#unheard = []
  }

  /** Hears again once something was written. */
  listenAfterWrite(): void {
    this.#hearsAfterWrite = true
  }

  transport(transport: Transport): Transport {
    return {
      form: transport.form,
      dial: async (target, handlers) => this.#stream(await transport.dial(target, this.#handlers(handlers))),
    }
  }

  session(session: RelaySession): RelaySession {
    return {
      request: (body, done) =>
        session.request(body, (outcome) => {
          done(outcome)
          if (body.case === 'resume') this.#resumed.resolve()
        }),
      ack: (positions) => session.ack(positions),
      hold: () => session.hold(),
      release: () => session.release(),
      close: () => session.close(),
    }
  }

  #stream(stream: CellStream): CellStream {
    return {
      write: (cells) => {
        stream.write(cells)
        // Not at once: what was written shall be on its way.
        if (this.#hearsAfterWrite) setImmediate(() => this.#listen())
      },
      end: () => stream.end(),
    }
  }

  #handlers(handlers: StreamHandlers): StreamHandlers {
    const hear = (happened: () => void): void => {
      if (this.#unheard) this.#unheard.push(happened)
      else happened()
    }
    return {
      data: (chunk) => hear(() => handlers.data(chunk)),
      closed: (reason) => hear(() => handlers.closed(reason)),
    }
  }

  #listen(): void {
    const unheard = this.#unheard
    this.#unheard = undefined
    for (const happened of unheard ?? []) happened()
  }
}
