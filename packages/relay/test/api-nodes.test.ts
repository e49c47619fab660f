/** Which node of its API a relay calls. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { ApiNodes, CALL_MS } from '../src/api/nodes.ts'

const NODES = ['https://a', 'https://b', 'https://c']

/** Nodes of which some fail; what was called, and for how long it could have taken. */
function start(failing: Record<string, 'unavailable' | 'auth_key_invalid' | 'not_found'>, takesMs = 0) {
  const clock = { now: 0 }
  const calls: string[] = []
  const times: number[] = []
  const nodes = new ApiNodes(
    NODES,
    () => 0,
    () => clock.now,
  )
  const call = async (url: string, timeoutMs: number): Promise<string> => {
    calls.push(url)
    times.push(timeoutMs)
    clock.now += Math.min(takesMs, timeoutMs)
    const code = failing[url]
    if (code !== undefined) throw StaticError.of(code, `from ${url}`)
    return url
  }
  return { nodes, call, calls, times, clock }
}

test('a node that fails is followed by the next, which is then used until it fails itself', async () => {
  const failing: Parameters<typeof start>[0] = { 'https://a': 'unavailable', 'https://b': 'auth_key_invalid' }
  const { nodes, call, calls } = start(failing)
  assert.equal(await nodes.call(call), 'https://c')
  assert.equal(await nodes.call(call), 'https://c')
  delete failing['https://a']
  failing['https://c'] = 'unavailable'
  assert.equal(await nodes.call(call), 'https://a')
  assert.deepEqual(calls, ['https://a', 'https://b', 'https://c', 'https://c', 'https://c', 'https://a'])
})

test('an answer about the request itself is final', async () => {
  const { nodes, call, calls } = start({ 'https://a': 'not_found' })
  await assert.rejects(nodes.call(call), { code: 'not_found' })
  assert.deepEqual(calls, ['https://a'])
})

test('if all fail, each was tried once, in the time of one call', async () => {
  const silent = Object.fromEntries(NODES.map((url) => [url, 'unavailable' as const]))
  const { nodes, call, calls, times, clock } = start(silent, Infinity)
  await assert.rejects(nodes.call(call), { code: 'unavailable', message: 'from https://c' })
  assert.deepEqual(calls, NODES)
  assert.deepEqual(times, [CALL_MS / 2, CALL_MS / 4, CALL_MS / 4])
  assert.equal(clock.now, CALL_MS)
})

test('a question to all nodes is answered by those that can; if none can, a refusal says more than silence', async () => {
  const failing: Parameters<typeof start>[0] = { 'https://a': 'unavailable', 'https://c': 'auth_key_invalid' }
  const { nodes, call } = start(failing)
  assert.deepEqual([...(await nodes.callAll(call))], [['https://b', 'https://b']])
  failing['https://b'] = 'unavailable'
  await assert.rejects(nodes.callAll(call), { code: 'auth_key_invalid' })
})

test('relays start at different nodes', async () => {
  const called = await Promise.all(
    [0, 0.4, 0.99].map((drawn) => new ApiNodes(NODES, () => drawn).call((url) => Promise.resolve(url))),
  )
  assert.deepEqual(called, NODES)
})
