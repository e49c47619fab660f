/** What must be so when nobody dies any more and time has passed. */
import { toHex } from '@static/protocol'
import type { RelayDisk } from '@static/testkit/world/disk'
import type { Channel } from '../../src/public/channel.ts'
import type { AttemptRecord } from '../../src/ports/index.ts'
import type { Person, Reading } from './person.ts'

type Log = ReturnType<RelayDisk['log']>

/** What keeps people from agreeing about a channel; undefined if nothing does. */
export function disagreement(
  name: string,
  people: readonly Person[],
  roster: readonly string[],
  log: Log,
  now: number,
): string | undefined {
  const [owner] = people
  const channel = owner?.channel(name)
  if (!channel) return 'the owner has no channel'
  const view = viewOf(channel)
  const members = channel.members().map(({ agentId }) => agentId)
  if (members.toSorted().join() !== roster.toSorted().join()) {
    return `the group has ${named(people, members)}, the roster ${named(people, roster)}`
  }
  for (const person of people) {
    const { agentId } = person
    const isIn = members.includes(agentId)
    const record = person.recordOf(name)
    const who = `${person.name} is ${isIn ? 'in' : 'out'}`
    // Taken back ones wait for nothing, but a Welcome may still come for them. An offer keeps them until it is answered.
    const mayKeep = record?.state === 'joined' || record?.state === 'offered'
    const asked = person.disk.contents.attempts.filter((attempt) => !attempt.takenBack || !mayKeep)
    const attempts = asked.filter((attempt) => isIn || record || !isHopeless(attempt, now))
    if (attempts.length > 0) return `${who} and has ${attempts.length} joins under way, ${record?.state}`
    if (isIn && !record) return `${who} and does not know it`
    // Its application has not answered.
    if (record?.state === 'offered' && (isIn || person.offers.length > 0)) continue
    if (isIn && record?.state !== 'joined') return `${who} and ${record?.state}`
    if (!isIn && record) return `${who} and ${record.state}`
    if (!isIn) continue
    const own = person.channel(name)
    if (!own || viewOf(own) !== view) return `${who} and sees another channel`
    const unread = unreadBy(person, log)
    if (unread.length > 0) return `${who} and has not read ${unread.join()}`
  }
  return undefined
}

/** By an invite for members: a Welcome might wait at the relay for as long as a week. The next session tells. */
function isHopeless({ admit, expiresAt }: AttemptRecord, now: number): boolean {
  return admit === 'members' && expiresAt <= now
}

function named(people: readonly Person[], agents: readonly string[]): string {
  return people
    .filter(({ agentId }) => agents.includes(agentId))
    .map(({ name }) => name)
    .join(' ')
}

function viewOf(channel: Channel): string {
  try {
    const members = channel.members().map(({ agentId }) => agentId)
    return `${members.toSorted().join()} ${channel.verify()}`
  } catch (error) {
    return String(error)
  }
}

/** Payloads of others, since somebody was added last, that its application does not have. */
function unreadBy(person: Person, log: Log): readonly number[] {
  const read = new Set(person.read.map(({ index }) => index))
  const since = addedAt(person, log)
  return payloads(log)
    .filter(({ index, sender }) => index > since && sender !== person.agentId && !read.has(index))
    .map(({ index }) => index)
}

/** What nobody may ever have read: what was not said, or something twice or too late in one life. */
export function misread(people: readonly Person[], log: Log): string[] {
  const wrong: string[] = []
  const said = new Set(payloads(log).map(({ index }) => index))
  for (const { name, read } of people) {
    for (const [life, readings] of Map.groupBy(read, (reading) => reading.life)) {
      for (const [at, reading] of readings.entries()) {
        const { index } = reading
        const before = readings[at - 1]
        if (!said.has(index)) wrong.push(`${name} has read ${index}, which nobody has said`)
        if (before && orderOf(reading) <= orderOf(before))
          wrong.push(`${name} has read ${index} after ${before.index} in life ${life}`)
      }
    }
  }
  return wrong
}

function orderOf({ index, place }: Reading): number {
  return index * 16 + place
}

function payloads(log: Log): Log {
  return log.filter((entry) => entry.kind === 'message' && !entry.control)
}

/** The index of the entry that added somebody last. */
function addedAt(person: Person, log: Log): number {
  const added = log.findLast(
    (entry) => entry.kind === 'commit' && entry.declaration.adds.some((agent) => toHex(agent) === person.agentId),
  )
  return added?.index ?? 0
}
