/**
 * The ports of an agent that can be killed. All its effects and inputs go through its database and its transport, so a
 * crash between any two of its steps is a crash before or after one of these calls.
 */
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  CellStream,
  FileDisk,
  FileParts,
  OpenedTarget,
  PartLine,
  StreamHandlers,
  Transport,
} from '@static/sdk/internal'

/** Before or after the nth call. */
export interface CrashPoint {
  readonly call: number
  readonly moment: 'before' | 'after'
}

/**
 * The victim: only the agent, or its process by SIGKILL. After an agent's death nothing passes through its ports, and
 * its memory is lost; data that it had handed to the network is still sent, as with a process.
 */
export type Victim = 'agent' | 'process'

/** The ports of one life of an agent. */
export class CrashingPorts {
  /**
   * The calls since `mark`, in order: `store`, `write`, `data`, `part` and `disk` of files, and `checkpoint` where a
   * process dies.
   */
  readonly calls: string[] = []
  readonly #victim: Victim
  readonly #end = Promise.withResolvers<void>()
  readonly #streams = new Set<CellStream>()
  #store: AgentStore | undefined
  #counting = false
  #point: CrashPoint | undefined
  #isDead = false

  constructor(victim: Victim = 'agent') {
    this.#victim = victim
  }

  /** The ports as options. */
  get options(): {
    readonly store: (store: AgentStore) => AgentStore
    readonly transport: (transport: Transport) => Transport
    readonly files: (files: FileParts) => FileParts
  } {
    return {
      store: (store) => this.store(store),
      transport: (transport) => this.transport(transport),
      files: (files) => ({ ...files, line: this.#line(files.line), disk: this.#disk(files.disk) }),
    }
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** Resolves when it dies. */
  get died(): Promise<void> {
    return this.#end.promise
  }

  /** Starts counting calls, and dies at the given point. */
  mark(point: CrashPoint | undefined): void {
    this.calls.length = 0
    this.#counting = true
    this.#point = point
  }

  store(store: AgentStore): AgentStore {
    this.#store = store
    return {
      load: () => this.#alive(() => store.load()),
      inbox: (id, after, limit) => this.#alive(() => store.inbox(id, after, limit)),
      poison: (id) => this.#alive(() => store.poison(id)),
      requests: (id, after, limit) => this.#alive(() => store.requests(id, after, limit)),
      answers: (id) => this.#alive(() => store.answers(id)),
      fileDigests: (id, index) => this.#alive(() => store.fileDigests(id, index)),
      uploadParts: (id, fileId) => this.#alive(() => store.uploadParts(id, fileId)),
      kept: (id, before, limit) => this.#alive(() => store.kept(id, before, limit)),
      keptSizes: (id, before, limit) => this.#alive(() => store.keptSizes(id, before, limit)),
      write: (changes) => {
        if (changes.length > 0) this.#call('store', () => store.write(changes))
        // Nothing after this point happens.
        if (this.#isDead) throw dead()
      },
      onFailure: (listener) => store.onFailure(listener),
      checkpoint: () => this.#checkpoint(() => this.#alive(() => store.checkpoint())),
      close: () =>
        this.#checkpoint(() => {
          if (!this.#isDead) store.close()
        }),
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

  #line(line: PartLine): PartLine {
    return {
      put: (request, bytes) => this.#later('part', () => line.put(request, bytes)),
      get: (request, length) => this.#later('part', () => line.get(request, length)),
      close: () => line.close(),
    }
  }

  /** Saving alone: reading leaves nothing behind. */
  #disk(disk: FileDisk): FileDisk {
    return {
      ...disk,
      openTarget: (path, isLeft) => this.#opened(() => disk.openTarget(path, isLeft)),
      reopenTarget: (path, identity) => this.#opened(() => disk.reopenTarget(path, identity)),
    }
  }

  /** Opens a file to save. With a process, the system would close what it has just opened. */
  async #opened(open: () => Promise<OpenedTarget | undefined>): Promise<OpenedTarget | undefined> {
    let target: OpenedTarget | undefined
    try {
      return await this.#later('disk', async () => {
        target = await open()
        return target && this.#target(target)
      })
    } catch (error) {
      await target?.close()
      throw error
    }
  }

  #target(target: OpenedTarget): OpenedTarget {
    const { path, identity, isComplete } = target
    return {
      path,
      identity,
      isComplete,
      write: (bytes, position) => this.#later('disk', () => target.write(bytes, position)),
      sync: () => this.#later('disk', () => target.sync()),
      finish: (size) => this.#later('disk', () => target.finish(size)),
      close: () => target.close(),
    }
  }

  /** Like `#call`, for what takes its time. */
  async #later<Result>(name: string, action: () => Promise<Result>): Promise<Result> {
    if (this.#isDead) throw dead()
    const call = this.#counting ? this.calls.push(name) : 0
    this.#dieAt({ call, moment: 'before' })
    if (this.#isDead) throw dead()
    const result = await action()
    this.#dieAt({ call, moment: 'after' })
    if (this.#isDead) throw dead()
    return result
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

  #alive<Result>(action: () => Result): Result {
    if (this.#isDead) throw dead()
    return action()
  }

  /** Closing makes a checkpoint as well. An agent that dies without its process dies at other calls. */
  #checkpoint(action: () => void): void {
    if (this.#victim === 'process') this.#call('checkpoint', action)
    else action()
  }

  #call(name: string, action: () => void): void {
    if (this.#isDead) return
    const call = this.#counting ? this.calls.push(name) : 0
    this.#dieAt({ call, moment: 'before' })
    if (this.#isDead) return
    action()
    this.#dieAt({ call, moment: 'after' })
  }

  #dieAt({ call, moment }: CrashPoint): void {
    if (this.#counting && this.#point?.call === call && this.#point.moment === moment) this.#kill()
  }

  #kill(): void {
    if (this.#isDead) return
    if (this.#victim === 'process') process.kill(process.pid, 'SIGKILL')
    this.#isDead = true
    for (const stream of this.#streams) stream.end()
    this.#store?.close()
    this.#end.resolve()
  }
}

function dead(): StaticError {
  return StaticError.of('closed', 'This agent was killed.')
}
