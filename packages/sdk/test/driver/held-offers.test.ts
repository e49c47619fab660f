import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_OFFERS } from '../../src/joining/offers.ts'
import { HeldOffers } from '../../src/driver/held-offers.ts'

const accept = (offer: string): Promise<string> => Promise.resolve(`accepted ${offer}`)
const gone = { code: 'not_found' }

test('the driver keeps as many offers as the agent, and forgets the oldest first', async () => {
  const held = new HeldOffers<string>()
  for (let number = 1; number <= MAX_OFFERS + 1; number++) held.put(number, String(number))
  await assert.rejects(held.answer(1, accept), gone)
  assert.equal(await held.answer(2, accept), 'accepted 2')
  assert.equal(await held.answer(MAX_OFFERS + 1, accept), `accepted ${MAX_OFFERS + 1}`)
})

test('an offer is forgotten once it is answered, and kept if that fails', async () => {
  const held = new HeldOffers<string>()
  held.put(1, 'one')
  await assert.rejects(
    held.answer(1, () => Promise.reject(new Error('offline'))),
    { message: 'offline' },
  )
  assert.equal(await held.answer(1, accept), 'accepted one')
  await assert.rejects(held.answer(1, accept), gone)
})
