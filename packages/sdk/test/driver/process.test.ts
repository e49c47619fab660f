import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { encodeFrame, type Frame, FrameReader } from '../../src/driver/pipe-frame.ts'

const MAIN = resolve(import.meta.dirname, '../../src/driver/main.ts')

function start(t: TestContext): ChildProcessWithoutNullStreams {
  const driver = spawn(process.execPath, [MAIN])
  t.after(() => driver.kill('SIGKILL'))
  return driver
}

/** The first answer. */
async function answer(driver: ChildProcessWithoutNullStreams): Promise<Frame> {
  const reader = new FrameReader()
  for (;;) {
    const [chunk] = (await once(driver.stdout, 'data')) as [Buffer]
    const [frame] = reader.push(chunk)
    if (frame) return frame
  }
}

test('it exits cleanly when stdin ends, and has printed nothing', async (t) => {
  const driver = start(t)
  driver.stdin.end()
  const [printed, errors, [code]] = await Promise.all([
    text(driver.stdout),
    text(driver.stderr),
    once(driver, 'exit') as Promise<[number]>,
  ])
  assert.deepEqual([printed, errors, code], ['', '', 0])
})

test('a failed call is answered with code and message, before and without a client', async (t) => {
  const driver = start(t)
  for (const piece of encodeFrame({ id: 5, do: 'channels' })) driver.stdin.write(piece)
  const { header } = await answer(driver)
  assert.deepEqual(header, {
    id: 5,
    error: { code: 'closed', message: 'The client is not open. Open it first.' },
  })
  const options = { endpoint: 'https://127.0.0.1:9', dataDir: '/dev/null/nowhere' }
  const connect = { id: 6, do: 'connect', manager: false, options, hasIdentity: true }
  for (const piece of encodeFrame(connect, Buffer.from('agent'))) driver.stdin.write(piece)
  const refused = (await answer(driver)).header as { readonly id: number; readonly error: { readonly code: string } }
  assert.deepEqual([refused.id, refused.error.code], [6, 'invalid_request'])
  driver.stdin.end()
  assert.deepEqual(await once(driver, 'exit'), [0, null])
})

test('it exits if it does not understand its parent', async (t) => {
  const driver = start(t)
  driver.stdin.write(Buffer.alloc(8, 0xff))
  const [printed, [code]] = await Promise.all([text(driver.stdout), once(driver, 'exit') as Promise<[number]>])
  assert.deepEqual([printed, code], ['', 1])
})
