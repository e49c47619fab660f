import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AgentEvent } from '@static/sdk'
import type { OpenAgent } from '../src/agent/open.ts'
import { printDelays, printEvents } from '../src/commands/channel/events.ts'

const [bob, carol] = ['b0'.repeat(32), 'ca'.repeat(32)] as const

async function* told(): AsyncGenerator<AgentEvent> {
  yield { type: 'rekeyed', channel: 'acme/a/b' }
  const members = [
    { agent: bob, waiting: 70 },
    { agent: carol, waiting: 3 },
  ]
  yield { type: 'lagging', channel: 'acme/a/b', members }
}

for (const [name, print] of Object.entries({
  send: (agent: OpenAgent) => printDelays(agent, told()),
  listen: (agent: OpenAgent) => printEvents(agent, told()),
})) {
  test(`${name} says who lags, by name where it is known`, async (t) => {
    const lines: string[] = []
    t.mock.method(process.stderr, 'write', (text: string) => lines.push(text) > 0)
    const agent = { call: () => Promise.resolve([{ agent_id: bob, identity: 'bob', self: false }]) }
    await print(agent as unknown as OpenAgent)
    t.mock.restoreAll()
    assert.equal(lines.length, 1)
    const who = 'bob (b0b0b0b0…) has not fetched 70 messages; cacacaca… has not fetched 3 messages'
    assert.ok(lines[0]?.includes(`acme/a/b: the relay is running out of storage`), String(lines))
    assert.ok(lines[0]?.includes(who), String(lines))
  })
}

test('events name members by identity and fingerprint, as long as they are remembered, and no name imitates a line', async (t) => {
  const lines: string[] = []
  t.mock.method(process.stderr, 'write', (text: string) => lines.push(text) > 0)
  const liar = 'bob: yes\nstatic: all is well'
  let members = [
    { agent_id: bob, identity: 'bob', self: true },
    { agent_id: carol, identity: liar, self: false },
  ]
  const channel = 'acme/a/b'
  async function* events(): AsyncGenerator<AgentEvent> {
    yield { type: 'members_changed', channel, by: bob, added: [bob, carol], removed: [] }
    members = members.slice(0, 1)
    yield { type: 'members_changed', channel, by: bob, added: [], removed: [carol] }
    yield { type: 'sender_unreadable', channel, sender: carol }
    yield { type: 'identity_changed', channel, identity: Buffer.from(liar), known: bob, now: carol }
    yield { type: 'members_changed', channel, by: bob, added: [bob], removed: [] }
  }
  await printEvents({ call: () => Promise.resolve(members) } as unknown as OpenAgent, events())
  t.mock.restoreAll()
  const shown = '"bob: yes\\u{a}static: all is well" (cacacaca…)'
  assert.deepEqual(
    lines.map((line) => line.slice('static: acme/a/b: '.length, -1).replace(/\. .*/, '.')),
    [
      `${shown} joined.`,
      `${shown} left or was removed.`,
      `eight messages in a row from ${shown} could not be decrypted.`,
      `${shown} has a different key than before (b0b0b0b0…).`,
    ],
  )
})

test('after a lie or a rejected change the notice names the member, what equal words mean, and the command that goes on', async (t) => {
  const lines: string[] = []
  t.mock.method(process.stderr, 'write', (text: string) => lines.push(text) > 0)
  const channel = 'acme/a/b'
  async function* events(): AsyncGenerator<AgentEvent> {
    yield { type: 'fork_detected', channel, member: carol, identity: Buffer.from('carol'), detail: '' }
    yield { type: 'commit_rejected', channel, sender: bob }
    yield { type: 'commit_skipped', channel, sender: bob, slot: 17, reason: 'it adds nobody' }
  }
  const call = (): Promise<unknown> => Promise.resolve([{ agent_id: bob, identity: 'bob', self: false }])
  await printEvents({ call } as unknown as OpenAgent, events())
  t.mock.restoreAll()
  const [fork = '', rejected = '', skipped = ''] = lines
  assert.match(fork, /fork detected: carol \(cacacaca…\) reports a different history/)
  assert.match(fork, /If they are equal, .* its report is wrong: .*`static channel accept-fork acme\/a\/b`/)
  assert.match(rejected, /a change by bob \(b0b0b0b0…\)\..*`static channel lift-bar acme\/a\/b b0b0b0b0`/)
  assert.match(rejected, /equal yours see the same members as you/)
  assert.match(skipped, /by bob \(b0b0b0b0…\) \(slot 17\): .*`static channel reject-commit acme\/a\/b 17`/)
})
