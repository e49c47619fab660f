import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressOrder, dialAddresses } from '../src/dial.ts'

const IPV4 = Array.from({ length: 5 }, (_, at) => ({ address: `192.0.2.${at}`, family: 4 }))
const IPV6 = Array.from({ length: 5 }, (_, at) => ({ address: `2001:db8::${at}`, family: 6 }))

/** Random numbers that repeat a list. */
function cycle(...numbers: readonly number[]): () => number {
  let at = 0
  return () => numbers[at++ % numbers.length] ?? 0
}

test('all addresses of a name are dialed, in random order, IPv4 first, each once', () => {
  const [one, two, three] = IPV4.slice(0, 3)
  const order = addressOrder([IPV6[0]!, one!, two!, three!, one!], undefined, cycle(0.9, 0.1, 0.5))
  assert.deepEqual(order, [two!.address, three!.address, one!.address, IPV6[0]!.address])
})

test('the address of a node that sent its sessions elsewhere comes last', () => {
  const order = addressOrder(IPV4.slice(0, 3), '192.0.2.0', () => 0)
  assert.deepEqual(order, ['192.0.2.1', '192.0.2.2', '192.0.2.0'])
})

test('a name with many addresses costs at most eight dials', () => {
  assert.equal(addressOrder([...IPV4, ...IPV6], undefined, Math.random).length, 8)
})

test('an address that does not answer costs one dial, and the error is that of the first', async () => {
  const dialled: string[] = []
  const failing = dialAddresses({ host: '192.0.2.1', serverName: 'relay.example' }, 100, (address, timeoutMs) => {
    dialled.push(`${address} ${timeoutMs}`)
    return Promise.reject(new Error('nobody'))
  })
  await assert.rejects(failing, /nobody/)
  assert.deepEqual(dialled, ['192.0.2.1 100'])
})
