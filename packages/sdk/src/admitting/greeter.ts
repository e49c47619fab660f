/**
 * Answers the hellos of joiners. Hellos that arrive together share one greeting, because every member reads each
 * greeting.
 */
import type { AgentContext } from '../agent/context.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { concatAll } from '../platform/bytes.ts'
import type { AgentId, ChannelId, Time } from '../ports/index.ts'

/**
 * Minimum time between greetings to members that were greeted before. More than 120 control messages an hour are not
 * free, and a guest must not spend this agent's quota with its hellos.
 */
const AGAIN_MS = 60_000
/**
 * The number of hellos that one greeting answers. A greeting must fit into the smallest message, because longer ones
 * are not control messages.
 */
const MOST_GREETED = 64

/** A hello to answer. */
export interface Hello {
  readonly from: AgentId
  readonly nonce: Uint8Array
}

/** The greetings of one agent. */
export class Greeter {
  readonly #context: Pick<AgentContext, 'now' | 'later'>
  /** The hellos that the next greeting answers, by channel; an entry exists while a greeting is being sent. */
  readonly #next = new Map<ChannelId, Hello[]>()
  /** The hellos of members greeted before, to answer later; and when such hellos were last answered. */
  readonly #again = new Map<ChannelId, Hello[]>()
  readonly #greetedAgainAt = new Map<ChannelId, Time>()

  constructor(context: Pick<AgentContext, 'now' | 'later'>) {
    this.#context = context
  }

  /** A channel is gone. */
  dropped(channel: ChannelId): void {
    this.#greetedAgainAt.delete(channel)
  }

  async greet({ id, sender, listedInvites }: AgentChannel, hellos: readonly Hello[]): Promise<void> {
    const isSending = this.#next.has(id)
    const waiting = this.#next.get(id) ?? []
    for (const hello of hellos) enqueue(waiting, hello)
    if (isSending) return
    this.#next.set(id, waiting)
    while (waiting.length > 0) {
      const some = waiting.splice(0, MOST_GREETED)
      await sender.send('greeting', concatAll(some.map(({ nonce }) => nonce))).then(
        () => listedInvites.hellosAnswered(some.map(({ from }) => from)),
        // The joiners repeat their hellos.
        () => {},
      )
    }
    this.#next.delete(id)
  }

  /** Answers the hello of a member that was greeted before, soon or together with others. */
  greetLater(channel: AgentChannel, hello: Hello): void {
    const context = this.#context
    const { id } = channel
    const waiting = this.#again.get(id)
    if (waiting) return enqueue(waiting, hello)
    const hellos = [hello]
    this.#again.set(id, hellos)
    const due = (this.#greetedAgainAt.get(id) ?? -Infinity) + AGAIN_MS - context.now()
    context.later(Math.min(Math.max(0, due), AGAIN_MS), () => {
      this.#again.delete(id)
      this.#greetedAgainAt.set(id, context.now())
      void this.greet(channel, hellos)
    })
  }
}

/** A member gets one answer, to its last hello: however many it sends, they fill neither memory nor greetings. */
function enqueue(hellos: Hello[], hello: Hello): void {
  const before = hellos.findIndex(({ from }) => from === hello.from)
  if (before === -1) hellos.push(hello)
  else hellos[before] = hello
}
