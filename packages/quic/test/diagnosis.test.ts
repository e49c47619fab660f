import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectFailure } from '../src/diagnosis.ts'
import { QUIC_FULL } from '../src/settings.ts'

const FAILED = { address: '127.0.0.1', port: 4433, serverName: 'localhost', shown: false, cause: undefined }

test('a relay that closes a connection for lack of room before it is open is called full, to be tried again', async () => {
  const { code, message, details } = await connectFailure({ ...FAILED, closeCode: QUIC_FULL })
  assert.deepEqual([code, details.retryAfter], ['unavailable', 5])
  assert.match(message, /accepts no more connections/)
})

test('another code that a connection is closed with before it is open is named', async () => {
  const { code, message } = await connectFailure({ ...FAILED, closeCode: 7 })
  assert.deepEqual([code, message], ['connection_error', '127.0.0.1:4433 closed the connection with code 7.'])
})
