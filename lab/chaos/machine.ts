/** Runs a channel while everything around it fails, then checks the histories of its members. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { type Below, randomBelow } from '@static/testkit/random'
import { check, unread } from './check/check.ts'
import { countAnswered } from './check/requests.ts'
import { type Faults, schedule, type Scene } from './faults/fault.ts'
import { type History, isInside, notesOf } from './history.ts'
import { Life } from './life.ts'
import type { AgentProcess } from './world/agent.ts'
import type { Servers } from './world/servers.ts'
import { type Cast, World } from './world/world.ts'

const MEBIBYTE = 1024 * 1024
/** Limit on the growth of a process after the first third of the faults. */
const MOST_GROWTH_BYTES = 128 * MEBIBYTE
const MOST_GROWTH_DESCRIPTORS = 16

/** How to run it. */
export interface Run<Kind extends Servers> {
  readonly seed: number
  readonly startServers: Parameters<typeof World.start<Kind>>[0]
  /** Processes to kill with SIGKILL. */
  readonly kills: number
  /** The faults that may happen. */
  readonly faults: Faults<Kind>
  /** The first owns the channel, the second is never killed. */
  readonly stayers: readonly Cast[]
  readonly visitors: readonly Cast[]
  /** Pauses between two messages of an agent, two faults, and two changes of members. */
  readonly pauseMs: number
  readonly faultPauseMs: number
  readonly lifePauseMs: number
  /** How long an agent tries to join before it is told to try again. */
  readonly joinSeconds: number
  /** The longest a fault lasts. */
  readonly mostFaultMs: number
  /** Time after the last fault within which all agents must have read everything. */
  readonly drainMs: number
  readonly strace: string | undefined
  readonly say: (line: string) => void
}

/** The result. */
export interface Report {
  readonly kills: number
  readonly faults: number
  readonly acknowledged: number
  readonly answered: number
  readonly receipts: number
  readonly drainMs: number
  readonly life: Readonly<Record<string, number>>
  /** Broken promises, one sentence each. */
  readonly wrong: readonly string[]
  readonly histories: readonly History[]
}

interface Size {
  readonly bytes: number
  readonly descriptors: number
}

/** Runs it once. */
export async function run<Kind extends Servers>(options: Run<Kind>): Promise<Report> {
  // The choices of one must not depend on how often another draws.
  const chance = (part: number): Below => randomBelow(options.seed * 16 + part)
  const below = chance(0)
  await using world = await World.start(options.startServers, chance(1))
  const stayers = await Promise.all(options.stayers.map((cast) => world.add(cast, options.pauseMs)))
  const visitors = await Promise.all(options.visitors.map((cast) => world.add(cast, options.pauseMs)))
  const [owner, witness] = stayers
  if (!owner || !witness) throw new Error('There must be two members at least.')
  await Promise.all(world.agents.map((agent) => agent.ready()))
  await owner.order({ order: 'create' })
  const life = new Life({ owners: [owner, witness], stayers, visitors }, chance(2), options.joinSeconds)
  await life.admitAll(stayers.slice(1))
  for (const agent of world.agents) {
    agent.isTalking = true
    await agent.order({ order: 'talk' })
  }
  const over = new AbortController()
  const living = life.live(over.signal, options.lifePauseMs)
  living.catch(() => {})
  const mortals = world.agents.filter((agent) => agent !== witness)
  const { mostFaultMs: mostMs, strace } = options
  const scene: Scene<Kind> = {
    world,
    below,
    mostMs,
    strace,
    mortal: () => pick(mortals, below),
    anyone: () => pick(world.agents, below),
  }
  const sizes = (): Size[] => [witness.databasePid, ...world.servers.relayPids].map(sizeOf)
  const done = await failAround(scene, options, living, sizes)
  over.abort()
  await living
  await life.finish()
  const { drainMs, wrong } = await settle(world, options)
  const grown = growth(done.sizes, sizes())
  const histories = world.histories()
  const count = (kind: 'sent' | 'reached'): number =>
    histories.reduce((sum, { notes }) => sum + notesOf(notes, kind).length, 0)
  return {
    kills: done.kills + (life.counts['joins while the owner was off'] ?? 0),
    faults: done.faults,
    acknowledged: count('sent'),
    answered: countAnswered(histories),
    receipts: count('reached'),
    drainMs,
    life: life.counts,
    wrong: [...wrong, ...grown, ...check(histories)],
    histories,
  }
}

/** One fault after the other. */
async function failAround<Kind extends Servers>(
  scene: Scene<Kind>,
  { kills, faults, faultPauseMs, say }: Run<Kind>,
  living: Promise<void>,
  sizes: () => Size[],
): Promise<{ kills: number; faults: number; sizes: Size[] }> {
  const done = { kills: 0, faults: 0, sizes: sizes() }
  for (const name of schedule(scene.below, kills, faults)) {
    say(`fault ${done.faults + 1}, ${done.kills} kills: ${name}`)
    const fault = faults[name]
    await Promise.race([fault?.happen(scene), living])
    done.kills += fault?.kills ?? 0
    done.faults++
    if (done.kills < kills / 3) done.sizes = sizes()
    await delay(scene.below(faultPauseMs))
  }
  return done
}

/** The faults are over: waits until all is read. */
async function settle(
  world: World,
  { drainMs, say }: Pick<Run<Servers>, 'drainMs' | 'say'>,
): Promise<{ drainMs: number; wrong: string[] }> {
  say('the faults are over')
  await world.servers.revive()
  for (const agent of world.agents) {
    agent.isTalking = false
    agent.start()
  }
  await Promise.all(world.agents.map((agent) => agent.ready()))
  const since = performance.now()
  const passed = (): number => performance.now() - since
  const end = AbortSignal.timeout(drainMs)
  const hushed = await Promise.race([
    Promise.all(world.agents.map((agent) => agent.order({ order: 'hush' }))).then(() => true),
    // A finished run does not wait for it.
    delay(drainMs, false, { ref: false }),
  ])
  let left = unread(world.histories())
  while (left.length > 0 && !end.aborted) {
    await delay(100)
    left = unread(world.histories())
  }
  const took = passed()
  const late = `after ${Math.round(took / 1000)} s`
  const wrong = hushed ? [] : [`members still send or ask ${late}`]
  if (left.length > 0) wrong.push(`${left.length} messages are unread ${late}`)
  else await agree(world, end)
  return { drainMs: took, wrong }
}

/** Members compare their words until they are equal: keys and invites may still be on their way. */
async function agree(world: World, end: AbortSignal): Promise<void> {
  for (;;) {
    const inside = new Set(world.histories().flatMap((history) => (isInside(history) ? [history.name] : [])))
    const members = world.agents.filter(({ name }) => inside.has(name))
    const words = await Promise.all(members.map((agent) => agent.order({ order: 'verify' }).catch(() => '')))
    if ((new Set(words).size === 1 && !words.includes('')) || end.aborted) return
    await delay(200)
  }
}

function growth(before: readonly Size[], after: readonly Size[]): string[] {
  return after.flatMap((now, at) => {
    const old = before[at]
    const name = at === 0 ? 'the agent that was never killed' : `node ${at} of the relay`
    if (!old) return []
    const faults: string[] = []
    if (now.bytes > old.bytes + MOST_GROWTH_BYTES) {
      faults.push(`${name} has grown from ${old.bytes / MEBIBYTE} to ${now.bytes / MEBIBYTE} MiB`)
    }
    if (now.descriptors > old.descriptors + MOST_GROWTH_DESCRIPTORS) {
      faults.push(`${name} has ${now.descriptors} descriptors instead of ${old.descriptors}`)
    }
    return faults
  })
}

function sizeOf(pid: number | undefined): Size {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const bytes = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024
    return { bytes, descriptors: readdirSync(`/proc/${pid}/fd`).length }
  } catch {
    // It was just killed.
    return { bytes: Infinity, descriptors: Infinity }
  }
}

function pick(agents: readonly AgentProcess[], below: Below): AgentProcess {
  const agent = agents[below(agents.length)]
  if (!agent) throw new Error('There is no agent.')
  return agent
}
