/** A process of a world. When it dies, its memory and everything that it was about to do are lost. */
import { StaticError } from '@static/protocol'

/** The parts of the world that a machine needs. */
interface Surroundings {
  run(machine: Machine, action: () => void): void
  tell(line: string): void
}

/** One life of a process. */
export class Machine {
  readonly name: string
  readonly #world: Surroundings
  readonly #deaths: (() => void)[] = []
  #left = Infinity
  #isDead = false

  constructor(world: Surroundings, name: string) {
    this.#world = world
    this.name = name
  }

  get isDead(): boolean {
    return this.#isDead
  }

  /** Calls back when it dies. */
  onDeath(action: () => void): void {
    this.#deaths.push(action)
  }

  /** Dies at the nth boundary from now on, of those between it and its disk or network; undefined: no longer. */
  arm(boundaries: number | undefined): void {
    this.#left = boundaries ?? Infinity
  }

  /** Does something whose timers, promises and writes are its own. */
  do(action: () => void): void {
    if (!this.#isDead) this.#world.run(this, action)
  }

  /**
   * Does something that others see or that survives it. It may die right before or after; once dead, it does nothing.
   */
  effect(what: string, action: () => void): void {
    this.#pass(`before ${what}`)
    if (this.#isDead) return
    action()
    this.#pass(`after ${what}`)
  }

  /**
   * Fails calls of a dead process, whose code still runs to the end of the turn.
   *
   * @throws {StaticError} `closed`
   */
  checkAlive(): void {
    if (this.#isDead) throw StaticError.of('closed', `${this.name} was killed.`)
  }

  kill(why: string): void {
    if (this.#isDead) return
    this.#isDead = true
    this.#world.tell(`${this.name} dies ${why}`)
    for (const action of this.#deaths) action()
  }

  #pass(where: string): void {
    if (!this.#isDead && --this.#left <= 0) this.kill(where)
  }
}
