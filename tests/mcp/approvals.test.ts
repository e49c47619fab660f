/** A model asks people before it acts. It never decides, and never sees what others ask. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Approval } from '@static/sdk'
import { entriesOf, newHost, oldHost, ok, Place, received, refusal } from './support.ts'

const place = await Place.open()
after(() => place[Symbol.asyncDispose]())
const CHANNEL = 'acme/ops/files'
interface Result {
  readonly approval: string
  readonly decision: string
  readonly by?: readonly { readonly identity: string; readonly attended: boolean }[]
  readonly action?: string
}

test('a model waits for a person, and acts only on what was approved', async () => {
  await using ada = await place.agent('ada')
  await place.channel(ada, CHANNEL, 'coder', 'other')
  const coder = await newHost(place.command('coder', 'mcp'))
  const other = await oldHost(place.command('other', 'mcp'))
  const decideNext = async (choice: 'approve' | 'deny'): Promise<void> => {
    for await (const { type } of ada.client.events()) {
      if (type !== 'approval_requested') continue
      const [approval] = ada.client
        .channel(CHANNEL)
        .approvals()
        .filter(({ state }) => state === 'pending')
      return await approval?.decide(choice)
    }
  }
  const about = { channel: CHANNEL, title: 'Delete build/', action: 'rm -r build', from: 'ada, other', need: 1 }
  const approving = decideNext('approve')
  const approved = await ok<Result>(coder, 'request_approval', about)
  await approving
  assert.equal(approved.decision, 'approved')
  assert.equal(approved.action, 'rm -r build')
  assert.deepEqual(
    approved.by?.map(({ identity, attended }) => [identity, attended]),
    [['ada', false]],
  )
  // One permission, one answer.
  const again = await refusal(coder, 'request_approval', { channel: CHANNEL, approval: approved.approval })
  assert.equal(again.code, 'not_allowed')

  // Nor two: a host that tries again while the first call still waits.
  const asked = async (): Promise<Approval> => {
    for await (const event of ada.client.events()) {
      if (event.type !== 'approval_requested') continue
      const found = ada.client.channel(CHANNEL).approvals()
      return found.find(({ id }) => id === event.approval) ?? assert.fail()
    }
    return assert.fail('closed')
  }
  const asking = asked()
  const first = coder.call('request_approval', about)
  const open = await asking
  const second = coder.call('request_approval', { channel: CHANNEL, approval: open.id })
  await ok(coder, 'channels')
  await open.decide('approve')
  const permitted = (await Promise.all([first, second])).filter(({ isError }) => isError !== true)
  assert.equal(permitted.length, 1)

  const denying = decideNext('deny')
  const denied = await ok<Result>(coder, 'request_approval', { ...about, from: 'ada' })
  await denying
  assert.deepEqual([denied.decision, denied.action], ['denied', undefined])

  // The other model may decide by its key, but has no tool for it, and is told nothing.
  await ada.send(CHANNEL, 'hello')
  const entries = entriesOf(await received(other))
  assert.deepEqual(
    entries.map(({ text }) => text),
    ['hello'],
  )
  for (const name of ['decide', 'approvals', 'approve']) await assert.rejects(other.call(name, {}), /Unknown tool/)
  const foreign = await refusal(other, 'request_approval', { channel: CHANNEL, approval: approved.approval })
  assert.equal(foreign.code, 'not_allowed')
  const nothing = await refusal(coder, 'request_approval', { channel: CHANNEL })
  assert.equal(nothing.code, 'invalid_request')
  const mixed = await refusal(coder, 'request_approval', { ...about, approval: approved.approval })
  assert.equal(mixed.code, 'invalid_request')
  await Promise.all([coder.close(), other.close()])
})
