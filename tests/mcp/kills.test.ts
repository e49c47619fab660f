/**
 * Hosts and commands that are killed: every message is delivered, in order, and again only if it says so. The long form
 * (`npm run proof -- mcp`) sends 1,000 messages and kills 50 times.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { randomNumbers } from '@static/testkit/random'
import type { StaticChannelManager } from '@static/sdk'
import { entriesOf, type Host, oldHost, Place, received } from './support.ts'

const MESSAGES = Number(process.env['STATIC_MESSAGES'] ?? 60)
const KILLS = Number(process.env['STATIC_KILLS'] ?? 4)
const LATEST = 1_800_000
/** How many messages are sent ahead of what was seen. */
const AHEAD = 10

const place = await Place.open()
const owner: StaticChannelManager = await place.agent('owner')
after(async () => {
  await owner.close()
  await place[Symbol.asyncDispose]()
})

/** A message as it was seen. */
interface Seen {
  readonly number: number
  readonly redelivered: boolean
}

/** Each number came for the first time in order, and any other time with the flag. */
function checkSeen(seen: readonly Seen[]): void {
  let next = 0
  for (const { number, redelivered } of seen) {
    if (number === next) next++
    else assert.ok(number < next && redelivered, `${number} came after ${next - 1}, redelivered: ${redelivered}`)
  }
  assert.equal(next, MESSAGES)
}

/** Sends all messages. */
async function sendAll(channel: string): Promise<void> {
  for (let number = 0; number < MESSAGES; number++) await owner.send(channel, `${number}\n`)
}

/** Different numbers of messages after which something is killed, in order. */
function killPoints(seed: number, count: number): readonly number[] {
  const random = randomNumbers(seed)
  const points = new Set<number>()
  while (points.size < count) points.add(Math.floor(random() * (MESSAGES - 2)) + 1)
  return [...points].sort((one, other) => one - other)
}

test('hosts that are killed with their servers', { timeout: LATEST }, async (t) => {
  const name = 'acme/kills/host'
  await place.channel(owner, name, 'model')
  const random = randomNumbers(7)
  const points = [...killPoints(20, KILLS)]
  const seen: Seen[] = []
  const open = (): Promise<Host & { readonly pid: number }> => oldHost(place.command('model', 'mcp'))
  let host = await open()
  let highest = -1
  let sent = 0
  while (highest < MESSAGES - 1 || points.length > 0) {
    for (; sent < MESSAGES && sent <= highest + AHEAD; sent++) await owner.send(name, String(sent))
    if (points[0] !== undefined && highest >= points[0]) {
      points.shift()
      // Before it answers, or between two answers.
      if (random() < 0.5) host.call('receive').catch(() => {})
      process.kill(host.pid, 'SIGKILL')
      await host.close()
      host = await open()
    }
    for (const { text, redelivered } of entriesOf(await received(host, { wait: highest < MESSAGES - 1 ? 50 : 1 }))) {
      seen.push({ number: Number(text), redelivered })
      highest = Math.max(highest, Number(text))
    }
  }
  await host.close()
  checkSeen(seen)
  t.diagnostic(`promise T1: MCP hosts: ${MESSAGES} messages over ${KILLS} kills, 0 lost`)
})

test('commands that are killed, and listeners', { timeout: LATEST }, async (t) => {
  const name = 'acme/kills/command'
  await place.channel(owner, name, 'worker')
  const log = join(place.workspace.path, 'seen')
  writeFileSync(log, '')
  const points = killPoints(21, KILLS)
  const isOdd = (_: number, at: number): boolean => at % 2 === 1
  const firstTime = (number: number): string => `test -e '${log}.${number}' || { : > '${log}.${number}'; `
  const cases = [
    ...points
      .filter((number, at) => isOdd(number, at))
      .map((number) => `${number}) ${firstTime(number)}kill -9 $$; };;`),
    ...points
      .filter((number, at) => !isOdd(number, at))
      .map((number) => `${number}) ${firstTime(number)}kill -9 $PPID; exit 1; };;`),
  ]
  const script = place.workspace.file(
    'work.sh',
    `read -r number\necho "$number $STATIC_REDELIVERED" >> '${log}'\ncase $number in\n${cases.join('\n')}\n${MESSAGES - 1}) kill -TERM $PPID;;\nesac\n`,
  )
  const { command, args, env } = place.command('worker', 'channel', 'listen', name, '--exec', `exec sh '${script}'`)
  const sending = sendAll(name)
  const endings: unknown[] = []
  do {
    const child = spawn(command, args, { env, stdio: 'ignore' })
    endings.push((await once(child, 'exit'))[1] ?? 'TERM')
  } while (endings.at(-1) !== 'TERM')
  await sending
  assert.equal(endings.length, Math.ceil(KILLS / 2) + 1)
  const lines = readFileSync(log, 'utf8').trim().split('\n')
  checkSeen(
    lines.map((line) => {
      const [number, redelivered] = line.split(' ')
      return { number: Number(number), redelivered: redelivered === 'true' }
    }),
  )
  t.diagnostic(`promise T1: commands and listeners: ${MESSAGES} messages over ${KILLS} kills, 0 lost`)
})
