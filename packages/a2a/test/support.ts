/** Agents of a real server in one channel, and an A2A agent that both bindings serve. */
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AgentCard, Message, StreamResponse, Task, TaskStatusUpdateEvent } from '@a2a-js/sdk'
import * as errors from '@a2a-js/sdk/errors'
import {
  type A2ARequestHandler,
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server'
import { type Channel, type ClientOptions, type MemberProof, StaticClient } from '@static/sdk'
import { certificates } from '@static/testkit/certificates'
import { startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type A2ACaller, ChannelPushNotifications } from '../src/index.ts'
import { makeCard } from './card.ts'

/** A server and agents on it. */
export interface Place extends AsyncDisposable {
  /** What an agent connects with. */
  options(identity: string): ClientOptions
  agent(identity: string): Promise<StaticClient>
}

/** With `files`, the relay takes files. */
export async function openPlace({ files = false }: { readonly files?: boolean } = {}): Promise<Place> {
  await using started = new AsyncDisposableStack()
  const workspace = started.use(await makeWorkspace())
  const dataDir = join(workspace.path, 'data')
  const settings = { argon2: QUICK['argon2'] }
  const server = started.use(
    await startServer({
      workspace,
      dataDir,
      command: 'up',
      settings,
      logLevel: 'silent',
      ...(files && { relay: { filesPort: 0 } }),
    }),
  )
  const caFile = join(dataDir, 'ca.pem')
  using client = makeClient(server.url, readFileSync(caFile, 'utf8'))
  const { api_key: key } = await signUp(client)
  const endpoint = `quic://localhost:${server.relay.quicPort}`
  const options: Place['options'] = (identity) => {
    const dataDir = join(workspace.path, 'agents', identity)
    return { endpoint, ca: caFile, apiUrl: server.url, apiKey: key.key, identity, dataDir }
  }
  const running = started.move()
  return {
    options,
    agent: async (identity) => {
      const agent = await StaticClient.connect(options(identity))
      running.use({ [Symbol.asyncDispose]: () => agent.close() })
      return agent
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** A channel of these agents, the first of which owns it. */
export async function channelOf(name: string, owner: StaticClient, ...others: StaticClient[]): Promise<Channel[]> {
  const channel = await owner.createChannel(name)
  const channels = [channel]
  for (const other of others) {
    channels.push(await other.joinChannel(name, await channel.addMember(await other.generateKeyPackage())))
  }
  return channels
}

/** What the agent is asked for decides what it does: a message, a task, one that stays open, one that is large. */
export class Executor implements AgentExecutor {
  /** Who called, who runs the caller as far as that was checked, and with which `traceparent`. */
  readonly calls: { readonly user: string; readonly proof?: MemberProof; readonly trace: unknown }[] = []
  readonly #open = new Map<string, () => void>()

  execute: AgentExecutor['execute'] = async ({ userMessage, taskId, contextId, context }, bus) => {
    const headers = context.state.get('headers') as Readonly<Record<string, unknown>> | undefined
    const { userName = '', proof } = (context.user ?? {}) as Partial<A2ACaller>
    this.calls.push({ user: userName, ...(proof && { proof }), trace: headers?.['traceparent'] })
    const [part] = userMessage.parts
    const words = part?.content?.$case === 'text' ? part.content.value : ''
    if (words === 'message' || words === 'large') {
      const text = words === 'large' ? 'x'.repeat(300_000) : `you said ${words}`
      bus.publish(AgentEvent.message(messageOf(text, 'ROLE_AGENT')))
      return bus.finished()
    }
    const status = (state: string): unknown => ({ state, timestamp: '2026-01-01T00:00:00Z' })
    const task = {
      id: taskId,
      contextId,
      status: status('TASK_STATE_SUBMITTED'),
      history: [Message.toJSON(userMessage)],
    }
    bus.publish(AgentEvent.task(Task.fromJSON(task)))
    const update = (state: string): void =>
      bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status: status(state) })))
    update('TASK_STATE_WORKING')
    if (words === 'throw') throw new Error('The executor failed.')
    if (words === 'wait') await new Promise<void>((resolve) => this.#open.set(taskId, resolve))
    update('TASK_STATE_COMPLETED')
    bus.finished()
  }

  cancelTask: AgentExecutor['cancelTask'] = async (taskId, bus) => {
    const status = { state: 'TASK_STATE_CANCELED', timestamp: '2026-01-01T00:00:00Z' }
    bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, contextId: '', status })))
    bus.finished()
  }

  /** Lets a task that waits go on. */
  finish(taskId: string): void {
    this.#open.get(taskId)?.()
  }
}

export function messageOf(text: string, role = 'ROLE_USER'): Message {
  return Message.fromJSON({ messageId: crypto.randomUUID(), role, parts: [{ text }] })
}

/** The errors of A2A 1.0, and one that it does not know. */
export const ERRORS: Readonly<Record<string, () => Error>> = {
  TaskNotFoundError: () => new errors.TaskNotFoundError(),
  TaskNotCancelableError: () => new errors.TaskNotCancelableError('Not now.'),
  PushNotificationNotSupportedError: () => new errors.PushNotificationNotSupportedError(),
  UnsupportedOperationError: () => new errors.UnsupportedOperationError(),
  ContentTypeNotSupportedError: () => new errors.ContentTypeNotSupportedError(),
  InvalidAgentResponseError: () => new errors.InvalidAgentResponseError(),
  ExtendedAgentCardNotConfiguredError: () => new errors.ExtendedAgentCardNotConfiguredError(),
  ExtensionSupportRequiredError: () => new errors.ExtensionSupportRequiredError({ metadata: { extension: 'x' } }),
  VersionNotSupportedError: () => new errors.VersionNotSupportedError(),
  RequestMalformedError: () => new errors.RequestMalformedError('Bad.'),
  Error: () => new Error('Internal.'),
}

/** Fails with the error that the id of the task names, in a stream after its first event. */
class Handler extends DefaultRequestHandler {
  override getTask: A2ARequestHandler['getTask'] = (params, context) => {
    const error = ERRORS[params.id]?.()
    return error ? Promise.reject(error) : super.getTask(params, context)
  }

  override async *resubscribe(
    ...[params, context]: Parameters<A2ARequestHandler['resubscribe']>
  ): ReturnType<A2ARequestHandler['resubscribe']> {
    const error = ERRORS[params.id]?.()
    if (!error) return yield* super.resubscribe(params, context)
    yield StreamResponse.fromJSON({ message: Message.toJSON(messageOf('first', 'ROLE_AGENT')) })
    throw error
  }
}

/** An A2A agent. */
export interface A2AAgent {
  readonly executor: Executor
  readonly push: ChannelPushNotifications
  readonly handler: DefaultRequestHandler
  readonly card: AgentCard
}

export function makeAgent(channel: string, agentId: string): A2AAgent {
  const card = makeCard(channel, agentId)
  const executor = new Executor()
  const push = new ChannelPushNotifications()
  const store = new InMemoryPushNotificationStore()
  const extended = { ...card, name: 'Extended' }
  const tasks = new InMemoryTaskStore()
  const handler = new Handler(card, tasks, executor, undefined, store, push, extended)
  return { executor, push, handler, card }
}

/** Makes `fetch` of this process trust servers of the tests. */
export async function trustTestServers(): Promise<void> {
  const { authority } = await certificates()
  setDefaultCACertificates([...getCACertificates('default'), readFileSync(authority.path, 'utf8')])
}

/** The same agent over HTTPS, as the SDK serves it. This process trusts its certificate from then on. */
export async function serveHttps({ handler }: A2AAgent): Promise<{ readonly url: string; close(): void }> {
  const load = createRequire(import.meta.url)
  const { jsonRpcHandler } = (await import('@a2a-js/sdk/server/express')) as unknown as {
    readonly jsonRpcHandler: (options: object) => unknown
  }
  const app = (load('express') as () => RequestListener & { use(router: unknown): void })()
  const user = { isAuthenticated: true, userName: 'http' }
  app.use(jsonRpcHandler({ requestHandler: handler, userBuilder: () => Promise.resolve(user) }))
  const { certificate } = await certificates()
  await trustTestServers()
  const server = createServer(certificate, app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `https://localhost:${(server.address() as AddressInfo).port}/`, close: () => void server.close() }
}
