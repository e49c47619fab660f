/**
 * Lines between agents and a relay: bytes arrive late, in pieces and in order, until the line is cut or one end dies.
 * Data that a machine sent before its death still arrives.
 */
import { hash } from 'node:crypto'
import { StaticError } from '@static/protocol'
import type { WireForm } from '@static/protocol/envelope'
import type { StreamHandler, StreamId, RelayTransport } from '@static/relay/internal'
import type { CellStream, StreamHandlers, Transport } from '@static/sdk/internal'
import type { Machine } from './machine.ts'
import { type Middle, Tap } from './middle.ts'
import type { World } from './world.ts'

/** The relay's end of the network. */
interface Port {
  readonly machine: Machine
  readonly handler: StreamHandler
}

interface Line {
  readonly number: number
  readonly agent: Machine
  /** The man in the middle of it. */
  readonly tap: Tap | undefined
  readonly port: Port
  readonly stream: StreamId
  readonly handlers: StreamHandlers
  /** Lanes. */
  readonly up: object
  readonly down: object
  isOpen: boolean
}

/** The network between agents and one relay; or several, of which each agent sees one. */
export class Network {
  /** Whether dials fail. */
  isDown = false
  /** The longest time that bytes take. */
  delayMs = 40
  /** Which relay an agent gets to see. */
  doorOf: (agent: Machine) => number = () => 0
  /** The man in the middle of all lines. */
  middle: Middle | undefined
  readonly #world: World
  #lines: Line[] = []
  readonly #ports = new Map<number, Port>()
  #last = 0

  constructor(world: World) {
    this.#world = world
  }

  /** A relay starts. */
  listen(machine: Machine, handler: (transport: () => RelayTransport) => StreamHandler, door = 0): void {
    const find = (stream: StreamId): Line | undefined =>
      this.#lines.find((line) => line.stream === stream && line.port.machine === machine)
    const transport: RelayTransport = {
      write: (streams, cells) => {
        for (const stream of streams) {
          const line = find(stream)
          if (line) machine.effect('a write to the network', () => this.#fromRelay(line, Uint8Array.from(cells)))
        }
      },
      pace: () => {},
      end: (stream) => {
        const line = find(stream)
        if (line) this.#end(line, 'down')
      },
      stop: () => Promise.resolve(),
    }
    this.#ports.set(door, { machine, handler: handler(() => transport) })
    this.#watch(machine)
  }

  /** The transport of an agent. */
  transport(agent: Machine, form: WireForm): Transport {
    this.#watch(agent)
    return {
      form,
      dial: (_target, handlers) =>
        new Promise((resolve, reject) => {
          this.#world.plan(this.#delay(), {}, agent, () => {
            const line = this.#connect(agent, form, handlers)
            if (line) resolve(this.#stream(line))
            else reject(StaticError.of('connection_error', 'Nobody is there.'))
          })
        }),
    }
  }

  /** Cuts all lines of some machines: data in transit is lost. */
  cut(machine: Machine): void {
    for (const line of this.#lines) if (line.agent === machine || line.port.machine === machine) this.#cut(line)
  }

  #connect(agent: Machine, form: WireForm, handlers: StreamHandlers): Line | undefined {
    const port = this.#ports.get(this.doorOf(agent))
    if (!port || port.machine.isDead || this.isDown) return undefined
    let stream: StreamId | undefined
    const address = '192.0.2.1'
    const transport = form === 'cbor' ? 'quic' : 'grpc'
    port.machine.do(() => (stream = port.handler.opened({ transport, form, address, proxy: false })))
    if (stream === undefined) return undefined
    const tap = this.middle && new Tap(this.middle, agent.name, form, (cells) => this.#send(line, 'down', cells))
    const line: Line = { number: ++this.#last, agent, tap, port, stream, handlers, up: {}, down: {}, isOpen: true }
    this.#lines.push(line)
    return line
  }

  #stream(line: Line): CellStream {
    return {
      write: (cells) =>
        line.agent.effect('a write to the network', () => this.#send(line, 'up', Uint8Array.from(cells))),
      end: () => this.#end(line, 'up'),
    }
  }

  /** Whole or in two pieces. */
  #send(line: Line, way: 'up' | 'down', chunk: Uint8Array): void {
    const at = this.#world.random() < 0.1 ? this.#world.below(chunk.length) : 0
    for (const piece of [chunk.subarray(0, at), chunk.subarray(at)]) {
      if (piece.length === 0) continue
      this.#world.note(`line ${line.number} ${way} ${piece.length} ${hash('sha256', piece).slice(0, 16)}`)
      this.#deliver(line, way, () => {
        if (way === 'up') this.#atRelay(line, piece)
        else line.agent.effect('data', () => line.handlers.data(piece))
      })
    }
  }

  #fromRelay(line: Line, cells: Uint8Array): void {
    if (line.tap) line.tap.down(cells)
    else this.#send(line, 'down', cells)
  }

  #atRelay(line: Line, piece: Uint8Array): void {
    const { handler } = line.port
    const cells = line.tap ? line.tap.up(piece) : piece
    if (cells.length > 0) handler.received(line.stream, cells)
  }

  #end(line: Line, way: 'up' | 'down'): void {
    this.#deliver(line, way, () => this.#close(line, undefined))
  }

  #deliver(line: Line, way: 'up' | 'down', action: () => void): void {
    this.#world.plan(this.#delay(), line[way], way === 'up' ? line.port.machine : line.agent, () => {
      if (line.isOpen) action()
    })
  }

  #cut(line: Line): void {
    this.#close(line, StaticError.of('connection_error', 'The line was cut.'))
  }

  #close(line: Line, reason: StaticError | undefined): void {
    if (!line.isOpen) return
    line.isOpen = false
    this.#lines = this.#lines.filter((other) => other !== line)
    this.#world.plan(0, {}, line.agent, () => line.handlers.closed(reason))
    this.#world.plan(0, {}, line.port.machine, () => line.port.handler.closed(line.stream))
  }

  /** When a machine dies, the other ends learn of it after all data that it sent. */
  #watch(machine: Machine): void {
    machine.onDeath(() => {
      for (const line of this.#lines) {
        if (line.agent === machine) this.#end(line, 'up')
        if (line.port.machine === machine) this.#end(line, 'down')
      }
    })
  }

  #delay(): number {
    return this.#world.below(this.delayMs)
  }
}
