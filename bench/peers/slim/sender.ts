/** The sender of one group: makes it, invites its members, and sends to them. */
import { type Ask, PAYLOAD_BYTES, type Told } from '../../agent/messages.ts'
import { ownCpu, serve } from '../../agent/serve.ts'
import { connectApp, LOST_AFTER_MS, nameOf } from './app.ts'
import { type Session, startSlim } from './library.ts'
import type { MemberOptions } from './options.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as MemberOptions
const session = await makeGroup()
const payload = new Uint8Array(PAYLOAD_BYTES).fill(7).buffer

async function makeGroup(): Promise<Session> {
  const slim = await startSlim()
  const { app, connection } = await connectApp(slim, options, 'sender')
  const config = slim.SessionConfig.create({
    sessionType: slim.SessionType.Group,
    // Reliable: a message without an acknowledgement is sent again, ten times, every second.
    maxRetries: 10,
    interval: 1000,
    metadata: new Map(),
    mlsSettings: slim.MlsSettings.create({ headerIntegrityValidationPercent: 100 }),
  })
  const made = await app.createSessionAndWaitAsync(config, nameOf(slim, options.group, 'channel'))
  for (let at = 0; at < options.members; at++) {
    const member = nameOf(slim, options.group, at)
    await app.setRouteAsync(member, connection)
    await made.inviteAndWaitAsync(member)
  }
  return made
}

/** Sends this many messages, one window at a time; each send ends when all members have acknowledged it. */
async function send(count: number, window: number): Promise<void> {
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) await (await session.publishAsync(payload, undefined, undefined)).waitAsync()
  }
  await Promise.all(Array.from({ length: window }, lane))
}

/** Round trips, one after the other, in milliseconds. */
async function roundTrips(count: number): Promise<number[]> {
  const times: number[] = []
  for (let at = 0; at < count; at++) {
    const start = performance.now()
    await session.publishAsync(payload, undefined, undefined)
    await session.getMessageAsync(LOST_AFTER_MS)
    times.push(performance.now() - start)
  }
  return times
}

async function answer(ask: Ask): Promise<Told> {
  const before = ownCpu()
  switch (ask.type) {
    case 'send':
      await send(ask.count, ask.window)
      return { type: 'done', cpu: ownCpu() - before }
    case 'roundTrips':
      return { type: 'times', times: await roundTrips(ask.count) }
    default:
      throw new Error(`A sender is not asked: ${ask.type}.`)
  }
}

serve(answer)
