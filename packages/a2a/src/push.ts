/**
 * Push notifications as answers: a client that has set a push notification configuration asks for its notifications,
 * and the server answers with each of them. No webhook is called. The request waits at the relay while either side is
 * offline, and a restarted server serves it again, starting with the current task.
 */
import { GetTaskPushNotificationConfigRequest, GetTaskRequest, StreamResponse, type Task, TaskState } from '@a2a-js/sdk'
import { fromJsonRpcErrorResponse } from '@a2a-js/sdk/errors'
import type { A2ARequestHandler, PushNotificationSender, ServerCallContext } from '@a2a-js/sdk/server'
import { A2A_VERSION, checkOptionNames } from '@static/protocol'
import type { AgentId, Channel, ChannelRequest } from '@static/sdk'
import { decodeResponse, encodeEnvelope } from './envelope.ts'

/** The method that asks for notifications. */
export const PUSH_METHOD = 'static/PushNotifications'

/** Limit of notifications that a subscriber has not taken. Beyond that, the oldest are dropped. */
const MOST_QUEUED = 256
/** How long a client waits for notifications, in seconds: a week. */
const TIMEOUT = 604_800

const FINAL: ReadonlySet<TaskState> = new Set([
  TaskState.TASK_STATE_COMPLETED,
  TaskState.TASK_STATE_FAILED,
  TaskState.TASK_STATE_CANCELED,
  TaskState.TASK_STATE_REJECTED,
])

interface Subscription {
  readonly queue: StreamResponse[]
  wake(): void
}

/** The sender of push notifications for `DefaultRequestHandler`, and the `push` option of `serveA2A`. */
export class ChannelPushNotifications implements PushNotificationSender {
  readonly #subscriptions = new Map<string, Set<Subscription>>()

  /** Notifies the clients that have asked for the notifications of a task. */
  send(event: StreamResponse, _context: ServerCallContext, task?: Task): Promise<void> {
    const taskId = task?.id ?? taskIdOf(event)
    for (const subscription of this.#subscriptions.get(taskId) ?? []) {
      subscription.queue.push(event)
      if (subscription.queue.length > MOST_QUEUED) subscription.queue.shift()
      subscription.wake()
    }
    return Promise.resolve()
  }

  /** @internal The notifications of a task until it ends, as JSON. The client must have a configuration for them. */
  async *subscribe(
    requestHandler: A2ARequestHandler,
    params: unknown,
    { signal }: ChannelRequest,
    context: ServerCallContext,
  ): AsyncGenerator<unknown, void> {
    const wanted = GetTaskPushNotificationConfigRequest.fromJSON(params)
    await requestHandler.getTaskPushNotificationConfig(wanted, context)
    const { taskId } = wanted
    let woken = Promise.withResolvers<void>()
    const wake = (): void => woken.resolve()
    const subscription: Subscription = { queue: [], wake }
    const all = this.#subscriptions.get(taskId) ?? new Set()
    this.#subscriptions.set(taskId, all.add(subscription))
    signal.addEventListener('abort', wake)
    try {
      const task = await requestHandler.getTask(GetTaskRequest.fromJSON({ id: taskId }), context)
      yield StreamResponse.toJSON({ payload: { $case: 'task', value: task } })
      if (isFinal(task.status?.state)) return
      for (;;) {
        for (const event of subscription.queue.splice(0)) {
          yield StreamResponse.toJSON(event)
          if (isFinal(stateOf(event))) return
        }
        if (signal.aborted) return
        await woken.promise
        woken = Promise.withResolvers()
      }
    } finally {
      signal.removeEventListener('abort', wake)
      all.delete(subscription)
      if (all.size === 0) this.#subscriptions.delete(taskId)
    }
  }
}

/** The notifications to ask for. */
export interface PushOptions {
  /** The member that serves A2A. */
  readonly to: AgentId
  readonly taskId: string
  /** The id of the push notification configuration. */
  readonly id: string
  /** Ends the wait when aborted. */
  readonly signal?: AbortSignal
}

/**
 * The push notifications of a task as a client gets them: first the current task, then each update until it ends.
 *
 * @throws {A2AError} as the server answers, for instance if the task or the configuration does not exist
 * @throws {StaticError} as `Channel.ask`
 */
export async function* pushNotifications(channel: Channel, options: PushOptions): AsyncGenerator<StreamResponse, void> {
  checkOptionNames('pushNotifications', options, ['to', 'taskId', 'id', 'signal'])
  const { to, taskId, id, signal } = options
  const call = { jsonrpc: '2.0', id: 1, method: PUSH_METHOD, params: { taskId, id } }
  const payload = encodeEnvelope({ 'A2A-Version': A2A_VERSION }, JSON.stringify(call))
  const limits = { timeout: TIMEOUT, ...(signal ? { signal } : {}) }
  for await (const answer of channel.ask(payload, { to, ...limits })) {
    const { result, error } = decodeResponse(answer.text(), call)
    if (error !== undefined) throw fromJsonRpcErrorResponse({ jsonrpc: '2.0', id: call.id, error } as never)
    yield StreamResponse.fromJSON(result)
  }
}

function stateOf({ payload }: StreamResponse): TaskState | undefined {
  if (payload?.$case === 'task' || payload?.$case === 'statusUpdate') return payload.value.status?.state
  return undefined
}

function taskIdOf({ payload }: StreamResponse): string {
  if (payload?.$case === 'task') return payload.value.id
  return payload?.value.taskId ?? ''
}

function isFinal(state: TaskState | undefined): boolean {
  return state !== undefined && FINAL.has(state)
}
