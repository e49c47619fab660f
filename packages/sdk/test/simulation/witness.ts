/** Who sees everything that agents send and changes nothing: no key may be used for two messages or commits. */
import type { ClientMessage, ServerMessage } from '@static/protocol/relay'
import type { World } from '@static/testkit/world'
import type { Middle, MiddleLine } from '@static/testkit/world/middle'
import { parsePrivateMessage } from '../../src/mls/framing.ts'

/** An honest middle. */
export class Witness implements Middle {
  readonly #world: World
  readonly #honest: readonly string[]

  /** A traitor may use its keys as it likes. */
  constructor(world: World, honest: readonly string[]) {
    this.#world = world
    this.#honest = honest
  }

  asked({ agent }: MiddleLine, message: ClientMessage): readonly ClientMessage[] {
    if (this.#honest.includes(agent)) watchSeals(this.#world, agent, message)
    return [message]
  }

  acknowledged(): boolean {
    return true
  }

  said(_line: MiddleLine, message: ServerMessage): readonly ServerMessage[] {
    return [message]
  }
}

/** Tells the world of what leaves an agent. */
export function watchSeals({ seals }: World, agent: string, { body }: ClientMessage): void {
  const sealed =
    body.case === 'sendMessage' ? body.value.ciphertext : body.case === 'sendCommit' ? body.value.commit : undefined
  const parts = sealed && parsePrivateMessage(sealed)
  if (parts) seals.shown(agent, parts.ciphertext)
}
