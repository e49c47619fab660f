/**
 * A planner hands out tasks to workers and collects their results; zod checks both, at both ends.
 *
 *     npx node examples/planner.ts [workers]
 *
 * Requires a running server (`npm start`) and an account on this machine (`npx static signup`). Workers that are off get
 * their requests when they are back.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Channel, StaticClient, StaticError } from '@static/sdk'
import { z } from 'zod'

const Task = z.object({ id: z.int(), text: z.string().max(10_000) })
const Result = z.object({ id: z.int(), words: z.int().nonnegative() })
type Task = z.infer<typeof Task>
type Result = z.infer<typeof Result>

const TEXTS = ['Where is order 4711?', 'It left the warehouse on Monday.', '', 'Thank you!']
const WORKERS = Number(process.argv[2] ?? 2)
const home = mkdtempSync(join(tmpdir(), 'static-example-'))
const connect = (identity: string): Promise<StaticClient> =>
  StaticClient.connect({ dataDir: join(home, identity), identity })

const planner = await connect('planner')
const workers = await Promise.all(Array.from({ length: WORKERS }, (_, at) => connect(`worker-${at + 1}`)))
const channel = await planner.createChannel(`acme/examples/planner-${Date.now()}`)
const welcomes = await channel.addMembers(await Promise.all(workers.map((each) => each.generateKeyPackage())))
const working = workers.map(async (worker, at) => {
  await work(await worker.joinChannel(channel.name, welcomes[at] ?? new Uint8Array()))
})

const tasks: Task[] = TEXTS.map((text, id) => ({ id, text }))
const results = (await Promise.all(workers.map(({ agentId }) => handOut(agentId)))).flat()
for (const { id, words } of results.sort((one, other) => one.id - other.id)) console.log(`task ${id}: ${words} words`)

// The worker refuses a payload that does not fit the schema, and says why.
for await (const { error } of channel.ask('{"id":"one"}', { to: workers[0]?.agentId ?? '' })) {
  console.log(`refused: ${error?.details.answer?.code}`)
}

await Promise.all([planner, ...workers].map((each) => each.close()))
await Promise.all(working)
rmSync(home, { recursive: true })

/** Gives one worker a task after the other until none is left. */
async function handOut(worker: string): Promise<readonly Result[]> {
  const done: Result[] = []
  for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
    for await (const answer of channel.ask(JSON.stringify(task), { to: worker, timeout: 60 })) {
      done.push(Result.parse(answer.json()))
    }
  }
  return done
}

/** What a worker does, until its client is closed. */
async function work(joined: Channel): Promise<void> {
  await joined.serve(async (request) => {
    const { success, data, error } = Task.safeParse(request.json())
    if (!success) throw StaticError.of('invalid_request', z.prettifyError(error))
    const words = data.text.split(/\s+/).filter((word) => word !== '').length
    return JSON.stringify({ id: data.id, words } satisfies Result)
  })
}
