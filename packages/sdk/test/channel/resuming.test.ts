/** The relay is asked to deliver while entries come, sessions end and others ask: whoever waits for an answer gets one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { StaticError } from '@static/protocol'
import { ChannelStateSchema, ErrorSchema, ReceiptDemand } from '@static/protocol/relay'
import { Deliveries } from '../../src/agent/deliveries.ts'
import type { Timers } from '../../src/agent/timers.ts'
import type { Outcome, RelaySession } from '../../src/ports/index.ts'
import { type Player, Stage } from '../support/stage.ts'

async function scene(): Promise<{ stage: Stage; ann: Player; bob: Player }> {
  const stage = await Stage.start(['ann', 'bob'])
  return { stage, ann: stage.player('ann'), bob: stage.player('bob') }
}

test('entries read just before another Resume are still acknowledged', async () => {
  const { stage, ann, bob } = await scene()
  // By the time of each Resume.
  const acknowledged: number[] = []
  stage.refuse = (player, body) => {
    if (player === bob && body.case === 'resume') acknowledged.push(bob.cursor)
    return undefined
  }
  const sent = ann.send('read me')
  const reader = bob.channel.inbox.read(({ payload }) => Buffer.from(payload).toString())
  // In the same turn, before anything of the message is on disk.
  const caughtUp = reader.next().then(() => bob.channel.intake.catchUp())
  await stage.settle()
  await Promise.all([sent, caughtUp])
  assert.deepEqual(acknowledged, [1])
})

test('a Resume that was lost with its session is not waited for', async () => {
  const { stage, ann, bob } = await scene()
  const { intake } = bob.channel
  bob.lose()
  const caughtUp = intake.catchUp()
  // Without a session, for instance because the inbox has room again.
  for (const _ of [1, 2]) intake.resume()
  for (const { done } of bob.requests.splice(0)) done({ type: 'lost', error: StaticError.of('connection_error') })
  const sent = ann.send('meanwhile')
  bob.resume()
  await stage.settle()
  await Promise.all([sent, caughtUp])
  assert.deepEqual(await bob.take(), ['meanwhile'])
})

test('the answer to an earlier Resume is ignored', async () => {
  const { stage, ann, bob } = await scene()
  const { intake } = bob.channel
  const caughtUp = [intake.catchUp(), intake.catchUp()]
  const [first] = bob.requests.splice(0)
  intake.resume()
  // The relay answers, and delivers what the second answer makes it deliver again.
  first?.done(stage.handle(bob, first.body))
  assert.equal(intake.isOnline, false)
  const sent = ann.send('between')
  await stage.settle()
  await Promise.all([sent, ...caughtUp])
  assert.deepEqual(await bob.take(), ['between'])
})

for (const end of ['removed', 'broken', 'closed'] as const) {
  test(`waiting callers learn that the channel has ended: ${end}`, async () => {
    const { bob } = await scene()
    const { channel } = bob
    const waiting = [channel.intake.catchUp(), channel.intake.catchUp()]
    const error = StaticError.of(end === 'broken' ? 'mls_error' : end)
    if (end === 'removed') channel.over()
    else channel.end(error, undefined)
    for (const one of waiting) await assert.rejects(one, { code: error.code })
    await assert.rejects(channel.intake.catchUp(), { code: error.code })
  })
}

test('a channel is requested again unless it has already asked or has ended', () => {
  const asked: { readonly channels: number; readonly done: (outcome: Outcome) => void }[] = []
  const timers: (() => void)[] = []
  const session: Partial<RelaySession> = {
    request: (body, done) => {
      asked.push({ channels: body.case === 'resume' ? body.value.channelIds.length : -1, done })
    },
  }
  const later = (_: number, action: () => void): number => timers.push(action)
  const deliveries = new Deliveries(session as RelaySession, { later } as unknown as Timers)
  let isOpen = true
  let answers = 0
  const id = '00'.repeat(16)
  const refused = { type: 'refused', error: create(ErrorSchema, { code: 'rate_limited' }) } as const
  deliveries.resume([{ id, receipts: ReceiptDemand.SAMPLE, isOpen: () => isOpen, answer: () => answers++ }])
  asked[0]?.done(refused)
  timers[0]?.()
  assert.deepEqual(
    asked.map(({ channels }) => channels),
    [1, 1],
  )
  isOpen = false
  asked[1]?.done(refused)
  timers[1]?.()
  assert.equal(asked.length, 2)
  // What makes the relay deliver Welcomes is asked until it is answered.
  deliveries.resume([])
  asked[2]?.done(refused)
  timers[2]?.()
  assert.equal(asked.length, 4)
  const channels = [create(ChannelStateSchema, { channelId: Buffer.from(id, 'hex') })]
  const value = { $typeName: 'static.relay.v1.ResumeResponse', channels, more: false } as const
  asked[1]?.done({ type: 'answered', body: { case: 'resume', value } })
  assert.equal(answers, 0)
})

test('Welcomes are asked for again once, however many sessions were refused them', () => {
  const done: ((outcome: Outcome) => void)[] = []
  const timers = new Set<() => void>()
  const session: Partial<RelaySession> = { request: (_, answered) => void done.push(answered) }
  const later = (_: number, action: () => void): (() => void) => {
    timers.add(action)
    return () => timers.delete(action)
  }
  const deliveries = new Deliveries(session as RelaySession, { later } as unknown as Timers)
  const refused = { type: 'refused', error: create(ErrorSchema, { code: 'rate_limited' }) } as const
  for (let session = 0; session < 3; session++) {
    deliveries.resume([])
    done.pop()?.(refused)
    assert.equal(timers.size, 1)
  }
  for (const action of timers) action()
  assert.equal(done.length, 1)
})
