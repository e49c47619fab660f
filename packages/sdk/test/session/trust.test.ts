/** Whether a relay is trusted is decided by the transport's reason, not by its words. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConnectionError, type ConnectionFailure } from '@static/node/connection-error'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import { openSession } from '../../src/session/core-runner.ts'
import { Listener, makeSigner } from './support.ts'

/** Dials with a transport that always fails; the error of the first session, and how often was dialled. */
async function dialsOf(error: Error): Promise<{ readonly dials: number; readonly error: unknown }> {
  let dials = 0
  const dial = (): Promise<never> => {
    dials++
    return Promise.reject(error)
  }
  const { session, ready } = openSession({
    endpoint: parseEndpoint('https://relay.test'),
    ca: undefined,
    transports: { grpc: { form: 'protobuf', dial } },
    pins: new Map(),
    ...makeSigner(),
    listener: new Listener(),
  })
  const met: unknown = await ready.catch((reason: unknown) => reason)
  await session.close()
  return { dials, error: met }
}

for (const reason of ['untrusted_certificate', 'unreadable_authority'] satisfies ConnectionFailure[]) {
  test(`${reason} fails at once, however it is reported`, async () => {
    const error = new ConnectionError(reason, 'Somebody else answers.')
    assert.deepEqual(await dialsOf(error), { dials: 1, error })
  })
}

test('a message about certificates does not make a relay untrusted', async () => {
  const { dials } = await dialsOf(new ConnectionError('timed_out', 'The certificate took too long.'))
  assert.equal(dials, 2)
})
