/**
 * An agent in this process that can be killed. Whatever it does to the world, and the world to it, goes through its
 * database and its transport: from the moment of its death on nothing does, and what it still holds in memory is lost.
 * What it had handed to the network before goes out, as it does when a process dies.
 */
import { StaticError } from '@static/protocol'
import type { AgentStore, CellStream, StreamHandlers, Transport } from '../../src/ports.ts'
import type { AgentOptions } from './world.ts'

/** Before or after the nth call. */
export interface DeathPoint {
  readonly call: number
  readonly moment: 'before' | 'after'
}

/** The ports of one life of an agent. */
export class Mortal {
  /** The calls since `mark`, in order: `store`, `write`, `data`. */
  readonly calls: string[] = []
  readonly #end = Promise.withResolvers<void>()
  readonly #streams = new Set<CellStream>()
  #store: AgentStore | undefined
  #counting = false
  #point: DeathPoint | undefined
  #isDead = false

  /** For `World.manager` and `World.agent`. */
  get options(): Pick<AgentOptions, 'store' | 'transport'> {
    return { store: (store) => this.store(store), transport: (transport) => this.transport(transport) }
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** Fulfilled at its death. */
  get died(): Promise<void> {
    return this.#end.promise
  }

  /** Counts from now on, and dies at a point. */
  mark(point: DeathPoint | undefined): void {
    this.calls.length = 0
    this.#counting = true
    this.#point = point
  }

  kill(): void {
    if (this.#isDead) return
    this.#isDead = true
    for (const stream of this.#streams) stream.end()
    this.#store?.close()
    this.#end.resolve()
  }

  store(store: AgentStore): AgentStore {
    this.#store = store
    const alive = <Result>(action: () => Result): Result => {
      if (this.#isDead) throw dead()
      return action()
    }
    return {
      load: () => alive(() => store.load()),
      inbox: (id, after, limit) => alive(() => store.inbox(id, after, limit)),
      write: (changes) => {
        if (changes.length > 0) this.#call('store', () => store.write(changes))
        // Whatever would have followed does not.
        if (this.#isDead) throw dead()
      },
      checkpoint: () => alive(() => store.checkpoint()),
      close: () => {
        if (!this.#isDead) store.close()
      },
    }
  }

  transport(transport: Transport): Transport {
    return {
      form: transport.form,
      dial: async (target, handlers) => {
        if (this.#isDead) throw dead()
        const stream = await transport.dial(target, this.#wrapHandlers(handlers))
        if (this.#isDead) stream.end()
        this.#streams.add(stream)
        return this.#wrapStream(stream)
      },
    }
  }

  #wrapHandlers(handlers: StreamHandlers): StreamHandlers {
    return {
      data: (chunk) => this.#call('data', () => handlers.data(chunk)),
      closed: (reason) => handlers.closed(reason),
    }
  }

  #wrapStream(stream: CellStream): CellStream {
    return {
      write: (cells) => this.#call('write', () => stream.write(cells)),
      end: () => stream.end(),
    }
  }

  #call(name: string, action: () => void): void {
    if (this.#isDead) return
    const call = this.#counting ? this.calls.push(name) : 0
    this.#dieAt({ call, moment: 'before' })
    if (this.#isDead) return
    action()
    this.#dieAt({ call, moment: 'after' })
  }

  #dieAt({ call, moment }: DeathPoint): void {
    if (this.#counting && this.#point?.call === call && this.#point.moment === moment) this.kill()
  }
}

function dead(): StaticError {
  return StaticError.of('closed', 'This agent was killed.')
}
