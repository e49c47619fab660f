/** Whose quota a message is charged to, by what the node remembers and what the store answers. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { message } from '@static/protocol'
import { SendMessageRequestSchema } from '@static/protocol/relay'
import type { Quota } from '../../src/core/accounts/quota.ts'
import type { ChannelContext } from '../../src/core/channels/context.ts'
import { Messages } from '../../src/core/channels/messages.ts'
import type { PendingRequest } from '../../src/core/requests/pending-request.ts'
import type { Account, Refusal, StoreRequest, StoreResult } from '../../src/ports.ts'

const FORMER: Account = { id: 'former', mode: 'live' }
const OWNER: Account = { id: 'owner', mode: 'live' }

/** A node that has served a guest, and whose channel changed its owner without a word to the node. */
function afterTakeOver(refused?: Refusal): { readonly send: () => void; readonly told: string[] } {
  const told: string[] = []
  let payer = FORMER
  type Append = StoreRequest<'append'>
  const store = (_: 'append', { paid }: Append, then: (outcome: { ok: true; value: StoreResult<'append'> }) => void) =>
    then({ ok: true, value: paid?.id === payer.id ? { index: 1, charged: true } : { unpaid: payer } })
  const quota: Pick<Quota, 'take'> = {
    take({ id }, then) {
      if (refused && payer === OWNER && id === FORMER.id) return then(refused)
      then({ use: () => told.push(`${id} pays`), release: () => told.push(`${id} does not pay`) })
    },
  }
  const context = { effects: { now: 0, store } } as unknown as ChannelContext
  const messages = new Messages(context, quota as Quota)
  const request = {
    caller: { agent: 'a0'.repeat(32), account: undefined, key: undefined },
    answer: () => told.push('accepted'),
    refuse: (refusal: Refusal) => told.push(refusal.refused),
  } as unknown as PendingRequest
  const fields = { channelId: new Uint8Array(16), messageId: new Uint8Array(16), slot: 0n, control: false }
  const send = (): void =>
    messages.send(request, message(SendMessageRequestSchema, { ...fields, counter: 1n, ciphertext: new Uint8Array(1) }))
  send()
  payer = OWNER
  return { send, told }
}

test('a former owner that the node remembers pays for no message of a guest, and is forgotten', () => {
  const { send, told } = afterTakeOver()
  send()
  send()
  const first = ['former pays', 'accepted']
  assert.deepEqual(told, [...first, 'former does not pay', 'owner pays', 'accepted', 'owner pays', 'accepted'])
})

test('a former owner without quota does not keep the guests of the new one from sending', () => {
  const { send, told } = afterTakeOver({ refused: 'quota_exceeded' })
  send()
  assert.deepEqual(told, ['former pays', 'accepted', 'owner pays', 'accepted'])
})
