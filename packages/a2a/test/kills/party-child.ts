/** One side of A2A over a channel in its own process, which its parent kills. What it must not forget is in a file. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { Extensions, ListTasksRequest, Message, SendMessageRequest, Task } from '@a2a-js/sdk'
import type { RequestOptions, Transport } from '@a2a-js/sdk/client'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  ServerCallContext,
} from '@a2a-js/sdk/server'
import { type Channel, type ClientOptions, StaticClient } from '@static/sdk'
import { a2aTransport, serveA2A, STATE_REDELIVERED_KEY, STATE_REQUEST_ID_KEY } from '../../src/index.ts'
import { makeCard } from '../card.ts'

/** What the parent says when it starts one. */
export interface Party {
  readonly role: 'client' | 'server'
  readonly options: ClientOptions
  readonly name: string
  /** The agent id of the server. */
  readonly to: string
  /** The number of tasks. */
  readonly tasks: number
  /** Lines that survive this process. */
  readonly file: string
}

/** Calls that are open at the same time. */
const OPEN = 8
const OPTIONS: RequestOptions = { serviceParameters: { 'A2A-Version': '1.0' } }

const party = JSON.parse(process.argv[2] ?? '{}') as Party
const client = await StaticClient.connect(party.options)
const channel = client.channel(party.name)

/** A line on disk before anything else happens, also if the process is killed next. */
function note(...words: readonly string[]): void {
  appendFileSync(party.file, `${words.join(' ')}\n`)
  process.send?.('event')
}

async function serve(): Promise<void> {
  const executor: AgentExecutor = {
    execute: async ({ userMessage, taskId, contextId, context }, bus) => {
      note(
        'ran',
        contextId,
        String(context.state.get(STATE_REQUEST_ID_KEY)),
        String(context.state.get(STATE_REDELIVERED_KEY)),
      )
      const status = { state: 'TASK_STATE_COMPLETED', timestamp: new Date().toISOString() }
      const history = [Message.toJSON(userMessage)]
      bus.publish(AgentEvent.task(Task.fromJSON({ id: taskId, contextId, status, history })))
      bus.finished()
    },
    cancelTask: () => Promise.resolve(),
  }
  const card = makeCard(party.name, party.to)
  await serveA2A(channel, new DefaultRequestHandler(card, new StoredTasks(), executor))
}

/** Tasks that outlive the process. */
class StoredTasks extends InMemoryTaskStore {
  readonly #file = `${party.file}.tasks`

  constructor() {
    super()
    for (const line of linesOf(this.#file)) {
      const { userName, task } = JSON.parse(line) as { userName: string; task: unknown }
      const user = { isAuthenticated: true, userName }
      const requestedExtensions = Extensions.parseServiceParameter(undefined)
      void super.save(Task.fromJSON(task), new ServerCallContext({ user, requestedExtensions }))
    }
  }

  override async save(task: Task, context: ServerCallContext): Promise<void> {
    const userName = context.user?.userName
    appendFileSync(this.#file, `${JSON.stringify({ userName, task: Task.toJSON(task) })}\n`)
    await super.save(task, context)
  }
}

/** Sends each task once and notes its result, whatever becomes of this process meanwhile. */
async function ask(): Promise<void> {
  const { name, to, tasks } = party
  const transport = await a2aTransport(channel, { to }).create('static:', makeCard(name, to))
  const answered = new Set<string>()
  const started = new Set<string>()
  for (const line of linesOf(party.file)) {
    const [word, contextId = ''] = line.split(' ')
    if (word === 'started') started.add(contextId)
    else answered.add(contextId)
  }
  const done = (contextId: string, taskId: string): void => {
    note('answered', contextId, taskId)
    answered.add(contextId)
  }
  await readOpen(channel, done)
  // Answered and read, but not noted: the server knows it. Otherwise it was never sent.
  for (const contextId of started) if (!answered.has(contextId)) await find(transport, contextId, done)
  const left = Array.from({ length: tasks }, (_, at) => `task-${at}`).filter((contextId) => !answered.has(contextId))
  const lane = async (): Promise<void> => {
    for (let contextId = left.shift(); contextId !== undefined; contextId = left.shift()) {
      note('started', contextId)
      const message = { messageId: crypto.randomUUID(), contextId, role: 'ROLE_USER', parts: [{ text: contextId }] }
      const result = await transport.sendMessage(SendMessageRequest.fromJSON({ message }), OPTIONS)
      done(contextId, 'id' in result ? result.id : '')
    }
  }
  await Promise.all(Array.from({ length: OPEN }, lane))
  process.send?.('done')
}

/** Reads the calls that were open when the process was killed. */
async function readOpen(from: Channel, done: (contextId: string, taskId: string) => void): Promise<void> {
  const read = from.asked().map(async (call) => {
    for await (const answer of call) {
      const { result } = answer.json() as { result?: { task?: { id: string; contextId: string } } }
      if (result?.task) done(result.task.contextId, result.task.id)
    }
  })
  await Promise.all(read)
}

async function find(
  transport: Transport,
  contextId: string,
  done: (contextId: string, taskId: string) => void,
): Promise<void> {
  const wanted = { contextId, status: 'TASK_STATE_COMPLETED', pageSize: 1 }
  const { tasks } = await transport.listTasks(ListTasksRequest.fromJSON(wanted), OPTIONS)
  for (const { id } of tasks) done(contextId, id)
}

function linesOf(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
}

if (party.role === 'server') await serve()
else await ask()
