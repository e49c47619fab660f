/** The keys of identities in one channel: whose are pinned, and what is reported. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex } from '@static/protocol'
import type { AgentEvent } from '../../src/agent/events.ts'
import { Pins } from '../../src/agent/pins.ts'
import { Roster } from '../../src/channel/members/roster.ts'
import type { Member } from '../../src/mls/index.ts'

const [OWNER, SELF, OTHER] = ['00'.repeat(32), '11'.repeat(32), '22'.repeat(32)]
const [CAROL, SQUATTER] = ['cc'.repeat(32), 'dd'.repeat(32)]

const leaf = (agent: string, identity: string): Member =>
  ({ agentId: fromHex(agent), identity: Buffer.from(identity) }) as never

/** A channel of an owner, as this agent sees it. */
function channel() {
  const group = {
    members: new Map([OWNER, SELF, OTHER].map((agent) => [agent, leaf(agent, agent.slice(0, 2))])),
  }
  const pins = new Pins([], { add: () => {} })
  const events: AgentEvent[] = []
  const context = { agentId: SELF, pins, emit: (event: AgentEvent) => void events.push(event) }
  const roster = new Roster(context as never, { id: 'ab', name: 'acme/x/y', owner: OWNER, group } as never, {
    leavers: [],
  })
  /** A commit that adds an agent called carol, or removes an agent, or both. */
  const commit = (by: string, added: string | undefined, removed?: string): void => {
    const left = [...group.members].filter(([agent]) => agent !== removed)
    const come = added === undefined ? [] : [[added, leaf(added, 'carol')] as const]
    group.members = new Map([...left, ...come])
    roster.change({
      by,
      added: added === undefined ? [] : [added],
      removed: removed === undefined ? [] : [removed],
      left: 0,
      vouched: [],
    })
  }
  const remove = (agent: string): void => commit(OWNER, undefined, agent)
  const changes = () => events.flatMap((event) => (event.type === 'identity_changed' ? [[event.known, event.now]] : []))
  return { roster, pins, commit, remove, changes, carol: Buffer.from('carol') }
}

test('a name that another member added is known while that agent is a member, and pins nothing', () => {
  const { roster, pins, commit, remove, changes, carol } = channel()
  commit(OTHER, SQUATTER)
  assert.equal(roster.conflict(carol, CAROL), SQUATTER)
  assert.equal(roster.conflict(carol, SQUATTER), undefined)
  assert.equal(pins.conflict(OWNER, carol, CAROL), undefined)
  remove(SQUATTER)
  assert.equal(roster.conflict(carol, CAROL), undefined)
  commit(OTHER, CAROL)
  assert.deepEqual(changes(), [])
})

test('a name that this agent added is pinned: another key is refused here and reported when others add it', () => {
  const { roster, pins, commit, remove, changes, carol } = channel()
  commit(SELF, CAROL)
  remove(CAROL)
  assert.equal(roster.conflict(carol, SQUATTER), CAROL)
  commit(OTHER, SQUATTER)
  assert.deepEqual(changes(), [[CAROL, SQUATTER]])
  assert.equal(pins.conflict(OWNER, carol, SQUATTER), CAROL)
  // This agent's own add has been accepted before.
  remove(SQUATTER)
  commit(SELF, SQUATTER)
  assert.equal(pins.conflict(OWNER, carol, CAROL), SQUATTER)
  assert.equal(changes().length, 1)
})

test('a commit that gives a name another key is reported', () => {
  const { pins, commit, changes, carol } = channel()
  commit(OTHER, CAROL)
  commit(OTHER, SQUATTER, CAROL)
  assert.deepEqual(changes(), [[CAROL, SQUATTER]])
  assert.equal(pins.conflict(OWNER, carol, CAROL), undefined)
})

test('an agent that enters pins only the owner', () => {
  const { roster, pins } = channel()
  roster.enter()
  assert.deepEqual(
    [OWNER, SELF, OTHER].map((agent) => pins.has(agent)),
    [true, false, false],
  )
})
