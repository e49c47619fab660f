/**
 * Opens the agent of a command. Only one process at a time can open an agent's database: if another command has it open
 * and shares it through its socket, that process does the work; otherwise this one opens it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { StaticError, type TrafficProfileName } from '@static/protocol'
import type {
  AgentEvent,
  ChannelRequest,
  ClientOptions,
  HandleOptions,
  ServeOptions,
  StaticChannelManager,
} from '@static/sdk'
import { type AccountSettings, OPTIONS, readRelayFile } from '@static/sdk/account'
import { accountOf, addAccountFlags, type AccountFlags, DEFAULT_API_URL, relayOf } from '../account/account.ts'
import { clientFlag } from '../account/client-flag.ts'
import { untilInterrupted } from '../terminal/interrupt.ts'
import { commandLine, shellWord } from '../terminal/output.ts'
import { withProgress } from '../terminal/progress.ts'
import {
  type ActionArgs,
  type ActionName,
  type ActionResult,
  ACTIONS,
  type Holder,
  holderWords,
  type Message,
  messageOf,
} from './actions.ts'
import { Host } from './host.ts'
import { HostClient, HostClosed } from './host-client.ts'
import { addKeyFlags, type KeyFlags, keySourceOf, slotsOf } from './key.ts'
import { type Follower, MessageQueue } from './message-queue.ts'
import { addPlaceFlags, agentPlace, checkExists, type PlaceFlags } from './place.ts'

/** Flags of every command that uses an agent. */
export interface AgentFlags extends AccountFlags, PlaceFlags, KeyFlags {
  readonly relay?: string
  readonly grpcPort?: number
  readonly traffic?: TrafficProfileName
}

const RELAY = 'relay, quic://host:4433 or https://host:5000; separate several nodes with commas'
const GRPC_PORT = 'gRPC port of the relay, where UDP is blocked'

export function addAgentFlags(command: Command): Command {
  return addAccountFlags(
    addKeyFlags(addPlaceFlags(command))
      .addOption(clientFlag('endpoint', '--relay <url>', RELAY))
      .addOption(
        clientFlag(
          'grpcPort',
          '--grpc-port <port>',
          GRPC_PORT,
          'the port that the relay announced, then 5000',
        ).argParser(port),
      )
      .addOption(clientFlag('traffic', '--traffic <profile>', 'traffic shaping profile')),
  )
}

function port(text: string): number {
  const { least, most } = OPTIONS.grpcPort
  if (/^\d{1,5}$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text)
  throw new InvalidArgumentError(`Expected a port number from ${least} to ${most}.`)
}

/** A command line for the same agent, for hints. */
export function commandLineFor({ as, dataDir, keyFile, passphraseFile, relay, ca }: AgentFlags, words: string): string {
  const given = { as, 'data-dir': dataDir, 'key-file': keyFile, 'passphrase-file': passphraseFile, relay, ca }
  const flags = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [` --${name} ${shellWord(value)}`],
  )
  return commandLine(`${words}${flags.join('')}`)
}

/** A request that is being served. */
export type Served = Pick<ChannelRequest, 'signal' | 'deadline' | 'over'>

/** An agent that a command can use. */
export interface OpenAgent {
  /** Whether another process has it open. */
  readonly remote: boolean
  readonly identity: string
  call<Name extends ActionName>(action: Name, ...args: ActionArgs<Name>): Promise<ActionResult<Name>>
  follow(channel: string): Follower
  /** Runs a handler for each message, like `Channel.handle`. Fails if another process has the agent open. */
  handle(channel: string, handler: (message: Message) => Promise<void>, options: HandleOptions): Promise<void>
  /** Answers each request, like `Channel.serve`. Fails if another process has the agent open. */
  serve(
    channel: string,
    handler: (request: Message, served: Served) => Promise<Uint8Array>,
    options?: ServeOptions,
  ): Promise<void>
  /** Events other than messages; undefined if another process has the agent open. */
  events(): AsyncIterableIterator<AgentEvent> | undefined
  close(): Promise<void>
}

/** The options to open an agent with. */
export type AgentOptions = ClientOptions & Required<Pick<ClientOptions, 'dataDir' | 'key'>>

export interface OpenOptions {
  /** Whether other commands can use it at the same time. */
  readonly share: boolean
  /** An invite link, for an agent that has no relay yet. */
  readonly link?: string | undefined
  /** Whether to keep other commands from reading its messages. */
  readonly readsAlone?: boolean
  /** Whether to open it even if the relay cannot be reached. */
  readonly wait?: boolean
  /** Whether an agent that does not exist is created. Otherwise a mistyped name would make one. */
  readonly create?: boolean
}

/** How long to wait for another short command to release the agent. */
const LOCK_TIMEOUT_MS = 10_000
const LOCK_RETRY_MS = 50

/**
 * Opens the agent; with `share`, other commands can use it at the same time.
 *
 * @throws {StaticError} `not_found` if it does not exist and is not to be created, `store_locked` if a process has it open
 * without sharing it; as `StaticChannelManager.connect`
 */
export async function openAgent(flags: AgentFlags, how: OpenOptions): Promise<OpenAgent> {
  const { link, wait = false, create = false } = how
  const { identity, dataDir } = agentPlace(flags)
  const held = await HostClient.connect(dataDir)
  if (held) return remoteAgent(held, identity)
  if (!create) await checkExists(flags)
  const options = await clientOptionsOf(flags, link)
  const until = performance.now() + LOCK_TIMEOUT_MS
  const open = async (): Promise<OpenAgent> => {
    for (;;) {
      const client = await HostClient.connect(dataDir)
      if (client) return remoteAgent(client, identity)
      try {
        const { StaticChannelManager: Manager } = await import('@static/sdk')
        return await localAgent(await Manager.connect({ ...options, wait }), { identity, dataDir }, how)
      } catch (error) {
        if (!(error instanceof StaticError) || error.code !== 'store_locked') throw error
        if (performance.now() > until) throw locked(identity, error)
      }
      await delay(LOCK_RETRY_MS)
    }
  }
  return await withProgress(connecting(options), open())
}

/** The options to open the agent with in this process. Prompts for its passphrase if it needs one. */
export async function clientOptionsOf(flags: AgentFlags, link?: string): Promise<AgentOptions> {
  const account = accountOf(flags)
  const { identity, dataDir } = agentPlace(flags)
  const isConfigured = account.relay !== undefined || link !== undefined || readRelayFile(dataDir) !== undefined
  const announced =
    flags.relay === undefined && !isConfigured ? await relayOf(account).catch(noServer(account)) : undefined
  return {
    ...(flags.relay === undefined ? {} : { endpoint: flags.relay }),
    ...announced,
    ...(link === undefined ? {} : { link }),
    identity,
    dataDir,
    apiUrl: account.apiUrl,
    apiKey: account.apiKey ?? null,
    // Without the saved CA, which is for the saved relay: the agent may know another relay from a link, with its own
    // CA.
    ...(flags.ca === undefined ? {} : { ca: flags.ca }),
    ...(flags.grpcPort === undefined ? {} : { grpcPort: flags.grpcPort }),
    ...(flags.traffic === undefined ? {} : { traffic: flags.traffic }),
    key: await keySourceOf(flags, await slotsOf(dataDir)),
  }
}

/** Adds how to name a server, on a machine that knows none and has none of its own. */
function noServer({ apiUrl, apiKey }: AccountSettings): (error: unknown) => never {
  return (error) => {
    const { code, message } = StaticError.from(error)
    if (code !== 'connection_error' || apiKey !== undefined || apiUrl !== DEFAULT_API_URL) throw error
    const instead =
      'This machine knows no other server: join with a link, pass --relay and --ca, or sign up with --api-url.'
    throw StaticError.of(code, `${message} ${instead}`, { cause: error })
  }
}

/** The progress message while a command connects. */
export function connecting({ endpoint }: AgentOptions): string {
  return `Connecting to ${endpoint ?? 'the relay'}`
}

/** Runs `work` on the agent; retries if the process that held the agent exited before it started the request. */
export async function withAgent<Result>(
  flags: AgentFlags,
  options: OpenOptions,
  work: (agent: OpenAgent) => Promise<Result>,
): Promise<Result> {
  for (;;) {
    const agent = await openAgent(flags, options)
    try {
      return await untilInterrupted(work(agent))
    } catch (error) {
      if (!(error instanceof HostClosed)) throw error
    } finally {
      await agent.close()
    }
  }
}

/** Runs one action of the agent, with a progress message on a terminal. */
export async function runOnAgent<Name extends ActionName>(
  flags: AgentFlags,
  doing: string,
  action: Name,
  ...args: ActionArgs<Name>
): Promise<ActionResult<Name>> {
  return await withAgent(flags, { share: false }, (agent) => withProgress(doing, agent.call(action, ...args)))
}

async function localAgent(
  manager: StaticChannelManager,
  { identity, dataDir }: { readonly identity: string; readonly dataDir: string },
  { share, readsAlone = false }: OpenOptions,
): Promise<OpenAgent> {
  const queue = new MessageQueue(manager)
  let host: Host | undefined
  try {
    host = share ? await Host.open(dataDir, manager, readsAlone ? undefined : queue) : undefined
  } catch (error) {
    await manager.close()
    throw error
  }
  return {
    remote: false,
    identity,
    call: async (action, ...args) => {
      const act = ACTIONS[action] as (...all: readonly unknown[]) => unknown
      return (await act(manager, ...args)) as ActionResult<typeof action>
    },
    follow: (channel) => queue.follow(channel),
    handle: async (name, handler, handling) => {
      const channel = manager.client.channel(name)
      await channel.handle((envelope) => handler(messageOf(channel, envelope)), handling)
    },
    serve: async (name, handler, serving) => {
      const channel = manager.client.channel(name)
      await channel.serve((request) => handler(messageOf(channel, request), request), serving)
    },
    events: () => manager.client.events(),
    close: async () => {
      // Close the socket first: new commands then wait for the database.
      await host?.close()
      await manager.close()
    },
  }
}

function remoteAgent(client: HostClient, identity: string): OpenAgent {
  const isOpenElsewhere = async (): Promise<never> => {
    const holder = (await client.request('holder', [])) as Holder
    throw StaticError.of(
      'store_locked',
      `Agent ${identity} is open in ${holderWords(holder)}, which reads its messages. Stop it, or use another agent (--as).`,
    )
  }
  return {
    remote: true,
    identity,
    call: async (action, ...args) => (await client.request(action, args)) as ActionResult<typeof action>,
    follow: (channel) => ({
      // Only the agent's own process knows.
      hasNext: false,
      next: async () => {
        try {
          return (await client.request('next', [channel])) as Message
        } catch (error) {
          // The process that held the agent was killed: unsettled messages are delivered again.
          throw client.isClosed ? new HostClosed() : error
        }
      },
      // Over the socket, messages count as delivered when they are sent.
      given: () => {},
      settle: async () => void (await client.request('settle', [channel])),
      abandon: () => client.close(),
    }),
    handle: isOpenElsewhere,
    serve: isOpenElsewhere,
    events: () => undefined,
    close: () => {
      client.close()
      return Promise.resolve()
    },
  }
}

function locked(identity: string, cause: StaticError): StaticError {
  return StaticError.of(
    'store_locked',
    `Another process has agent ${identity} open and does not share it. Stop it, or choose another agent with --as.`,
    { cause },
  )
}
