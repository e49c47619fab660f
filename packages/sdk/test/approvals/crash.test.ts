/**
 * The asker and a decider of approvals are killed between any two of their calls to the world, and an old copy of the
 * asker's directory is put back. Each approval is decided at most once and used at most once, and none is lost.
 */
import assert from 'node:assert/strict'
import { cp, rm } from 'node:fs/promises'
import { test } from 'node:test'
import { CrashingPorts, type CrashPoint } from '@static/testkit/crash/agent-ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import { checkRecord } from '../../src/approvals/record.ts'
import type { Approval, ApprovalResult } from '../../src/public/approvals/approval.ts'
import { checkApproval } from '../../src/public/approvals/checked-approval.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { code, event, NAME, TestSystem } from '../support/test-system.ts'

/** Every point in `npm run proof`; here one of so many of the asker's. */
const STEP = Number(process.env['STATIC_STEP'] ?? 3)
const random = randomNumbers(SEED)

/** The points of a run with so many calls. */
function pointsOf(calls: number, step: number): CrashPoint[] {
  const points: CrashPoint[] = []
  const first = Math.floor(random() * step)
  for (let point = first; point < 2 * calls; point += step)
    points.push({ call: 1 + (point >> 1), moment: point % 2 === 0 ? 'before' : 'after' })
  return points
}

/** Approves all that it is asked, until it is closed. */
async function approveAll(client: StaticClient): Promise<void> {
  for await (const { type } of client.events()) {
    if (type !== 'approval_requested') continue
    const open = client
      .channel(NAME)
      .approvals()
      .filter(({ decisions }) => decisions.every(({ agentId }) => agentId !== client.agentId))
    for (const approval of open) await approval.decide('approve')
  }
}

const actionOf = (round: number): Buffer => Buffer.from(`deploy ${round}`)
const ofRound = (client: StaticClient, round: number): Approval[] =>
  client
    .channel(NAME)
    .approvals()
    .filter(({ action }) => actionOf(round).equals(action))

test(`an asker killed at any of its calls executes at most once, with what was approved, seed ${SEED}`, async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let alice = await world.agent('alice')
  const deciders = [await world.agent('bob'), await world.agent('carol')]
  await world.channel(alice, deciders)
  const from = deciders.map(({ agentId }) => agentId)
  for (const decider of deciders) void approveAll(decider)
  await alice.close()

  let points: CrashPoint[] = [{ call: 0, moment: 'before' }]
  let calls = 0
  let [asked, executed, unused] = [0, 0, 0]
  for (let round = 0; round < points.length; round++) {
    const point = points[round]!
    const ports = new CrashingPorts()
    const { files: _files, ...rest } = ports.options
    alice = await world.agent('alice', rest)
    await alice.channel(NAME).catchUp()
    ports.mark(point)
    const wish = { title: `Deploy ${round}`, action: actionOf(round) }
    const done: ApprovalResult | undefined = await Promise.race([
      alice
        .channel(NAME)
        .requestApproval(wish, { from, need: 2 })
        .catch(() => undefined),
      ports.died.then(() => undefined),
    ])
    await alice.close().catch(() => {})
    let uses = 0
    if (done?.decision === 'approved') {
      assert.ok(actionOf(round).equals(done.action))
      uses++
    }
    if (round === 0) {
      assert.equal(uses, 1)
      calls = ports.calls.length
      points = [point, ...pointsOf(calls, STEP)]
    }
    alice = await world.agent('alice')
    const found = ofRound(alice, round)
    assert.ok(found.length <= 1)
    for (const approval of found) {
      asked++
      assert.equal(await approval.outcome(), 'approved')
      checkRecord(approval.record(), { from, need: 2, action: actionOf(round) })
      if (!approval.isSpent) {
        assert.ok(actionOf(round).equals(await approval.spend()))
        uses++
      } else if (uses === 0) unused++
      await assert.rejects(approval.spend(), code('not_allowed'))
    }
    assert.ok(uses <= 1, `call ${point.call} ${point.moment}`)
    executed += uses
    await alice.close()
  }
  t.diagnostic(
    `${points.length} rounds of ${calls} calls: ${asked} asked, ${executed} executed, ${unused} used by none`,
  )
  assert.ok(calls > 8 && asked > points.length / 2 && executed > asked / 2)
})

test(`a decider killed at any of its calls decides once, and what it was asked is not lost, seed ${SEED}`, async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const alice = await world.agent('alice')
  let bob = await world.agent('bob')
  await world.channel(alice, [bob])
  await bob.close()

  let points: CrashPoint[] = [{ call: 0, moment: 'before' }]
  let calls = 0
  let again = 0
  for (let round = 0; round < points.length; round++) {
    const point = points[round]!
    const ports = new CrashingPorts()
    const { files: _files, ...rest } = ports.options
    bob = await world.agent('bob', rest)
    await bob.channel(NAME).catchUp()
    ports.mark(point)
    const approving = event(bob, 'approval_requested')
      .then(() => ofRound(bob, round)[0]?.decide('approve'))
      .catch(() => undefined)
    const wish = { title: `Deploy ${round}`, action: actionOf(round) }
    const result = alice.channel(NAME).requestApproval(wish, { from: ['bob'], need: 1, timeout: 60 })
    await Promise.race([approving, ports.died])
    await bob.close().catch(() => {})
    if (round === 0) {
      calls = ports.calls.length
      points = [point, ...pointsOf(calls, 1)]
    }
    bob = await world.agent('bob')
    // The request may not have been stored when he died.
    const late = event(bob, 'approval_requested')
    late.catch(() => {})
    await bob.channel(NAME).catchUp()
    if (ofRound(bob, round).length === 0) await late
    const [approval = assert.fail('lost')] = ofRound(bob, round)
    if (approval.decisions.length === 0) {
      again++
      await approval.decide('approve')
    } else await assert.rejects(approval.decide('deny'), code('not_allowed'))
    const { decision, by } = await result
    assert.deepEqual([decision, by.length, by[0]?.attended], ['approved', 1, false])
    await bob.close()
  }
  t.diagnostic(`${points.length} rounds of ${calls} calls: decided again after ${again} deaths`)
  assert.ok(calls > 4 && again > 0 && again < points.length)
})

/** More of them: `STATIC_ROUNDS=500`. */
const ROUNDS = Number(process.env['STATIC_ROUNDS'] ?? 8)
/** A program is killed so often in a round. */
const DEATHS = 2
/** It dies at one of so many calls. */
const SOON = 24

test(`${ROUNDS} approvals, with kills of the asker and a decider at any time: each decided and executed at most once, seed ${SEED}`, async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let alice = await world.agent('alice')
  let bob = await world.agent('bob')
  const carol = await world.agent('carol')
  await world.channel(alice, [bob, carol])
  const from = [bob.agentId, carol.agentId]
  void approveAll(carol)
  await Promise.all([alice.close(), bob.close()])
  let deaths = 0

  /** Runs a program until it is done, however often it is killed. */
  const live = async (name: string, run: (client: StaticClient) => Promise<void>): Promise<void> => {
    for (let life = 0; ; life++) {
      const ports = new CrashingPorts()
      const { files: _files, ...rest } = ports.options
      const client = await world.agent(name, life < DEATHS ? rest : {})
      await client.channel(NAME).catchUp()
      const call = 1 + Math.floor(random() * SOON)
      if (life < DEATHS) ports.mark({ call, moment: random() < 0.5 ? 'before' : 'after' })
      const isDone = await Promise.race([run(client).then(() => true), ports.died.then(() => false)]).catch(() => false)
      await client.close().catch(() => {})
      if (isDone) return
      assert.ok(life < DEATHS, `${name} has failed without a death`)
      deaths++
    }
  }

  let [executed, unused] = [0, 0]
  for (let round = 0; round < ROUNDS; round++) {
    let uses = 0
    const execute = (action: Uint8Array): void => {
      assert.ok(actionOf(round).equals(action))
      uses++
    }
    const asker = live('alice', async (client) => {
      const channel = client.channel(NAME)
      const [before] = ofRound(client, round)
      if (before) {
        assert.equal(await before.outcome(), 'approved')
        if (!before.isSpent) execute(await before.spend())
        return
      }
      const wish = { title: `Deploy ${round}`, action: actionOf(round) }
      const result = await channel.requestApproval(wish, { from, need: 2 })
      if (result.decision === 'approved') execute(result.action)
    })
    const decider = live('bob', async (client) => {
      const events = client.events()
      for (;;) {
        const [approval] = ofRound(client, round)
        if (approval) {
          const hasDecided = approval.decisions.some(({ agentId }) => agentId === client.agentId)
          if (!hasDecided) await approval.decide('approve')
          // A decision that is on disk is sent by the next life.
          return await asker
        }
        if ((await events.next()).done === true) throw new Error('The agent was closed.')
      }
    })
    await Promise.all([asker, decider])
    alice = await world.agent('alice')
    bob = await world.agent('bob')
    const [approval = assert.fail('lost'), ...others] = ofRound(alice, round)
    assert.equal(others.length, 0)
    assert.deepEqual([approval.state, approval.isSpent], ['approved', true])
    const { by } = checkApproval(approval.record(), { from, need: 2, action: actionOf(round) })
    assert.deepEqual(by.map(({ agentId }) => agentId).toSorted(), from.toSorted())
    assert.ok(uses <= 1)
    executed += uses
    if (uses === 0) unused++
    await Promise.all([alice.close(), bob.close()])
  }
  t.diagnostic(
    `${ROUNDS} approvals, ${deaths} deaths: ${executed} executed, ${unused} used by a program that was killed`,
  )
  assert.ok(deaths > ROUNDS / 2 && executed > 0)
})

test('an old copy of the asker uses no permission that the asker has used', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let alice = await world.agent('alice')
  const bob = await world.agent('bob')
  const [channel] = await world.channel(alice, [bob])
  // Approved, and not used: the wait ends before that.
  const asked = event(bob, 'approval_requested')
  const stop = new AbortController()
  const wish = { title: 'Deploy', action: 'deploy' }
  const waiting = channel!.requestApproval(wish, { from: ['bob'], need: 1, signal: stop.signal })
  const cancelled = assert.rejects(waiting, code('cancelled'))
  await asked
  await channel!.catchUp()
  stop.abort()
  await cancelled
  await bob.channel(NAME).approvals()[0]?.decide('approve')
  assert.equal(await channel!.approvals()[0]?.outcome(), 'approved')
  await alice.close()
  const [directory, copy] = [world.directoryOf('alice'), world.directoryOf('alice-copy')]
  await cp(directory, copy, { recursive: true })
  alice = await world.agent('alice')
  const [approval = assert.fail()] = alice.channel(NAME).approvals()
  assert.deepEqual([approval.state, approval.isSpent], ['approved', false])
  assert.equal(Buffer.from(await approval.spend()).toString(), 'deploy')
  await alice.close()
  await rm(directory, { recursive: true })
  await cp(copy, directory, { recursive: true })
  alice = await world.agent('alice')
  const [old = assert.fail()] = alice.channel(NAME).approvals()
  assert.deepEqual([old.state, old.isSpent], ['approved', false])
  await assert.rejects(old.spend(), code('store_rolled_back'))
})
