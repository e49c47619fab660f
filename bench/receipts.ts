/**
 * The cost of receipts: 10 and 100 members of a channel with receipts on, in turns with as many with receipts off. 1
 * KiB messages over gRPC, everything durable; only the sender reads receipts, and once more all do. Targets: messages a
 * second ≥ 0.95×, entries in the log equal, CPU of the relay ≤ 1.1×. `--messages=N --rounds=N --members=10,100` for
 * less.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type AgentProcess, startChild } from './agent/process.ts'
import { startSystem } from './agent/system.ts'
import { cpuMs, median } from './api/processor.ts'

const { values: flags } = parseArgs({
  options: {
    messages: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '8' },
    members: { type: 'string', default: '10,100' },
  },
})
const [messages, rounds] = [Number(flags.messages), Number(flags.rounds)]
const WINDOW = 64
/** The members that sign receipts, and those that read them. */
const KINDS = {
  off: { receipts: 'off', reads: false, allRead: false },
  senderReads: { receipts: 'settled', reads: true, allRead: false },
  allRead: { receipts: 'settled', reads: true, allRead: true },
} as const
type Kind = keyof typeof KINDS

interface Crowd {
  readonly sender: AgentProcess
  readonly receivers: AgentProcess
}

interface Run {
  readonly perSecond: number
  /** CPU microseconds of the relay and of all receivers per message. */
  readonly relay: number
  readonly receivers: number
  readonly entries: number
}

using workspace = await makeWorkspace()
await using system = await startSystem(workspace)
const connection = system.connection('grpc')

async function gather(stack: AsyncDisposableStack, kind: Kind, members: number): Promise<Crowd> {
  const { receipts, reads, allRead } = KINDS[kind]
  const name = `bench/receipts/${kind.toLowerCase()}-${members}`
  const place = workspace.directory(`${kind}-${members}`)
  const client = { ...connection, receipts, traffic: 'off' }
  const start = (file: string, options: object): Promise<AgentProcess> =>
    startChild(join(import.meta.dirname, 'receipts', file), options)
  const receivers = stack.use(await start('crowd.ts', { members, dataDir: place, client, allRead }))
  const own = { dataDir: join(place, 'sender'), identity: 'sender', reads }
  const sender = stack.use(await start('sender.ts', { ...client, ...own }))
  await sender.ask({ type: 'create', name }, 'done')
  const { base64: keyPackages } = await receivers.ask({ type: 'keyPackage' }, 'welcomes')
  const { base64: welcomes } = await sender.ask({ type: 'add', keyPackages }, 'welcomes')
  await receivers.ask({ type: 'join', name, welcome: welcomes.join(' ') }, 'done')
  return { sender, receivers }
}

/** Waits until all have received everything, and the relay has passed on their receipts. */
async function run({ sender, receivers }: Crowd): Promise<Run & { readonly last: number }> {
  const before = cpuMs(system.pid)
  const start = performance.now()
  const [{ times }, { cpu }] = await Promise.all([
    sender.ask({ type: 'send', count: messages, window: WINDOW }, 'times'),
    receivers.ask({ type: 'receive', count: messages }, 'done'),
  ])
  const seconds = (performance.now() - start) / 1000
  await new Promise((resolve) => setTimeout(resolve, 1500))
  const [last = 0] = times
  const perMessage = (microseconds: number): number => Math.round(microseconds / messages)
  const relay = perMessage((cpuMs(system.pid) - before) * 1000)
  return { perSecond: Math.round(messages / seconds), relay, receivers: perMessage(cpu), entries: 0, last }
}

const results: Record<string, unknown> = {}
let isMissed = false
for (const members of flags.members.split(',').map(Number)) {
  await using stack = new AsyncDisposableStack()
  const crowds = new Map<Kind, Crowd>()
  for (const kind of Object.keys(KINDS) as Kind[]) crowds.set(kind, await gather(stack, kind, members))
  const runs = new Map<Kind, Run[]>()
  const lasts = new Map<Kind, number>()
  for (let round = 0; round <= rounds; round++) {
    for (const [kind, crowd] of crowds) {
      const { last, ...figures } = await run(crowd)
      const entries = last - (lasts.get(kind) ?? last)
      lasts.set(kind, last)
      // The first round is for warming up.
      if (round > 0) runs.set(kind, [...(runs.get(kind) ?? []), { ...figures, entries }])
    }
  }
  const of = (kind: Kind, field: keyof Run): number => median((runs.get(kind) ?? []).map((each) => each[field]))
  const figures = Object.fromEntries(
    [...crowds.keys()].map((kind) => [
      kind,
      {
        messagesPerSecond: of(kind, 'perSecond'),
        relayCpu: of(kind, 'relay'),
        receiversCpu: of(kind, 'receivers'),
        entries: of(kind, 'entries'),
      },
    ]),
  )
  const ratio = (kind: Kind, field: keyof Run): number => Number((of(kind, field) / of('off', field)).toFixed(3))
  const ratios = (kind: Kind): object => ({
    messagesPerSecond: ratio(kind, 'perSecond'),
    relayCpu: ratio(kind, 'relay'),
    receiversCpu: ratio(kind, 'receivers'),
    entries: ratio(kind, 'entries'),
  })
  results[members] = { ...figures, ratios: { senderReads: ratios('senderReads'), allRead: ratios('allRead') } }
  isMissed ||= ratio('senderReads', 'perSecond') < 0.95 || ratio('senderReads', 'relay') > 1.1
  isMissed ||= ratio('senderReads', 'entries') !== 1
  console.log(members, JSON.stringify(results[members]))
}
writeFileSync(join(import.meta.dirname, 'results/receipts.json'), `${JSON.stringify(results, null, 2)}\n`)
if (isMissed) process.exitCode = 1
