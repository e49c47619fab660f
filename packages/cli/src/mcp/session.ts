/**
 * The agent of an MCP session. This process opens it, unless another process has it open. Then every call except
 * `receive` goes through that process. When that process exits, the next call opens the agent here.
 */
import { StaticError } from '@static/protocol'
import { printEvents } from '../commands/channel/events.ts'
import { holderWords } from '../agent/actions.ts'
import { HostClosed } from '../agent/host-client.ts'
import { type AgentFlags, commandLineFor, openAgent, type OpenAgent } from '../agent/open.ts'
import { agentPlace } from '../agent/place.ts'
import type { Lane } from './lane.ts'
import { HandedOver, type RequestId } from './handed-over.ts'
import { Mailbox } from './mailbox.ts'
import { NoticeFile } from './notice-file.ts'
import { noticeOf } from './notices.ts'

/** The maximum number of concurrent calls through another process, which serves 32 in total. */
const MOST_REMOTE = 8

/** The agent in this process, and its mailbox. */
interface Local {
  readonly agent: OpenAgent
  readonly mailbox: Mailbox
}

/** An answer of a member that was handed to the host. */
export interface SeenAnswer {
  readonly channel: string
  readonly request: string
  /** Which of the answers to the request it is. */
  readonly place: string
}

/** The events that a session reports to its owner. */
export interface SessionEvents {
  /** The agent is open in this process. */
  readonly opened?: (mailbox: Mailbox) => void
  /** Something has arrived while no call of `receive` is waiting for it. */
  readonly arrived?: (lane: Lane) => void
}

/** One host and its agent. */
export class Session {
  readonly #flags: AgentFlags
  readonly #events: SessionEvents
  readonly #create: boolean
  /** Answers of members that were handed to the host and are not settled. */
  readonly answers: HandedOver<SeenAnswer> = new HandedOver()
  /** Transfers of files that no call has seen the end of, by what they do. */
  readonly transfers: Map<string, string> = new Map()
  #local: Local | undefined
  #opening: Promise<unknown> = Promise.resolve()
  #remoteCalls = 0
  readonly #waiting: (() => void)[] = []
  #isClosed = false

  /** With `create`, an agent that does not exist is created. */
  constructor(flags: AgentFlags, events: SessionEvents = {}, create = false) {
    this.#flags = flags
    this.#create = create
    this.#events = events
  }

  /**
   * Opens the agent.
   *
   * @throws {StaticError} as `openAgent`
   */
  async open(): Promise<void> {
    await this.use(() => Promise.resolve())
  }

  /**
   * Runs a task with the agent.
   *
   * @throws {StaticError} as `openAgent`, and the errors of `work`
   */
  async use<Result>(work: (agent: OpenAgent) => Promise<Result>): Promise<Result> {
    if (this.#local) return await work(this.#local.agent)
    await this.#takePlace()
    try {
      for (;;) {
        const agent = await this.#open()
        try {
          return await work(agent)
        } catch (error) {
          // The process that had the agent open exited before it started the request.
          if (!(error instanceof HostClosed)) throw error
        } finally {
          if (agent.remote) await agent.close()
        }
      }
    } finally {
      this.#leavePlace()
    }
  }

  /**
   * The mailbox with arrived messages.
   *
   * @throws {StaticError} `store_locked` if another process has the agent open; as `openAgent`
   */
  async mailbox(): Promise<Mailbox> {
    return await this.use(async (agent) => {
      if (this.#local) return this.#local.mailbox
      const holder = holderWords(await agent.call('holder'))
      // With its own directory and key, not those of this agent.
      const other = commandLineFor({ as: `${agent.identity}-2` }, 'mcp')
      throw StaticError.of(
        'store_locked',
        `Messages of agent ${agent.identity} are read by ${holder}, so this session cannot receive. To read here, stop that process, or give this session an agent of its own: configure \`${other}\` and invite it to the channel.`,
      )
    })
  }

  /** A request has arrived from the host. */
  arrived(request: RequestId): void {
    this.answers.arrived(request)
    this.#local?.mailbox.arrived(request)
  }

  /** Its answer was written. */
  answered(request: RequestId): void {
    this.answers.answered(request)
    this.#local?.mailbox.answered(request)
  }

  /** If the agent is open here, the host dropped the answer to this request. */
  putBack(request: RequestId): void {
    // They are still with the agent.
    this.answers.dropped(request)
    this.#local?.mailbox.putBack(request)
  }

  /** Closes the agent. Unsettled messages are delivered again in the next session. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#opening.catch(() => {})
    await this.#local?.agent.close()
  }

  /** One call opens the agent, the others wait for it. */
  async #open(): Promise<OpenAgent> {
    const opened = this.#opening.catch(() => {}).then(() => this.#openNow())
    this.#opening = opened
    return await opened
  }

  async #openNow(): Promise<OpenAgent> {
    if (this.#local) return this.#local.agent
    if (this.#isClosed) throw StaticError.of('closed')
    const agent = await openAgent(this.#flags, {
      share: true,
      readsAlone: true,
      wait: true,
      create: this.#create,
    })
    if (agent.remote) return agent
    const mailbox = new Mailbox(agent, this.#events.arrived, new NoticeFile(agentPlace(this.#flags).dataDir))
    this.#local = { agent, mailbox }
    this.#follow(agent, mailbox)
    this.#events.opened?.(mailbox)
    return agent
  }

  #follow(agent: OpenAgent, mailbox: Mailbox): void {
    const shown = agent.events()
    if (shown) void printEvents(agent, shown)
    const events = agent.events()
    if (!events) return
    const take = async (): Promise<void> => {
      for await (const event of events) {
        const found = noticeOf(event)
        if (found) mailbox.addNotice(found.channel, found.notice)
      }
    }
    void take()
  }

  async #takePlace(): Promise<void> {
    if (this.#remoteCalls < MOST_REMOTE) this.#remoteCalls++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  #leavePlace(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#remoteCalls--
  }
}
