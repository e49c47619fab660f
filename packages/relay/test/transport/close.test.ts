/** How connections are closed: the library's handles are used again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { close, noteClosed, QUIC_CLOSE } from '../../src/transport/quic/close.ts'

test('a connection is closed once, and never after it has closed: its handle may be that of another by then', () => {
  const calls: string[] = []
  const session = (handle: string): { close(code: number, reason: string): void } => ({
    close: (_code, reason) => void calls.push(`${handle} ${reason}`),
  })
  const [one, other] = [session('1'), session('2')]
  close(one, QUIC_CLOSE.noStream)
  close(one, QUIC_CLOSE.done)
  noteClosed(other)
  close(other, QUIC_CLOSE.done)
  assert.deepEqual(calls, ['1 no session was opened in time'])
})
