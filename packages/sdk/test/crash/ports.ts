/**
 * The ports of an agent, counted. Whatever an agent does to the world, and the world to it, goes through them: so a
 * crash between any two of its steps is a crash before or after one of these calls.
 */
import type { AgentStore, CellStream, RelaySession, StreamHandlers, Transport } from '../../src/ports.ts'
import type { Wrapping } from './start.ts'
import type { CrashPoint } from './tasks.ts'

/** Counts the calls of both ports, and ends the process at one of them. */
export class CountedPorts implements Wrapping {
  /** What happened, in order: `store`, `checkpoint`, `write`, `data`. */
  readonly calls: string[] = []
  #counting = false
  #crashAt: CrashPoint | undefined
  /** What has come while it does not listen. */
  #unheard: (() => void)[] | undefined
  #hearsAfterWrite = false
  readonly #resumed = Promise.withResolvers<void>()

  /** Counts from now on. */
  mark(crashAt: CrashPoint | undefined): void {
    this.#counting = true
    this.#crashAt = crashAt
  }

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

  store(store: AgentStore): AgentStore {
    return {
      load: () => store.load(),
      inbox: (id, after, limit) => store.inbox(id, after, limit),
      write: (changes) => {
        if (changes.length > 0) this.#call('store', () => store.write(changes))
      },
      checkpoint: () => this.#call('checkpoint', () => store.checkpoint()),
      // Makes a checkpoint, too.
      close: () => this.#call('checkpoint', () => store.close()),
    }
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
        this.#call('write', () => stream.write(cells))
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
      data: (chunk) => hear(() => this.#call('data', () => handlers.data(chunk))),
      closed: (reason) => hear(() => handlers.closed(reason)),
    }
  }

  #listen(): void {
    const unheard = this.#unheard
    this.#unheard = undefined
    for (const happened of unheard ?? []) happened()
  }

  #call(name: string, action: () => void): void {
    if (!this.#counting) return action()
    const call = this.calls.push(name)
    this.#dieAt({ call, moment: 'before' })
    action()
    this.#dieAt({ call, moment: 'after' })
  }

  #dieAt({ call, moment }: CrashPoint): void {
    if (this.#crashAt?.call === call && this.#crashAt.moment === moment) process.kill(process.pid, 'SIGKILL')
  }
}
