import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type Duplex, duplexPair } from 'node:stream'
import { test } from 'node:test'
import { Connections } from '../../src/driver/connections.ts'
import { encodePipeFrame, type PipeFrame, PipeFrameReader } from '../../src/driver/pipe-frame.ts'

/** A program's end of a connection. */
class Program {
  readonly stream: Duplex
  readonly #frames = new PipeFrameReader()

  constructor(connections: Connections) {
    const [stream, other] = duplexPair()
    this.stream = stream
    connections.add(other)
  }

  /** Calls, and returns the first answer. */
  async call(header: object, bytes?: Uint8Array): Promise<unknown> {
    for (const piece of encodePipeFrame(header, bytes)) this.stream.write(piece)
    for (;;) {
      const [chunk] = (await once(this.stream, 'data')) as [Buffer]
      const [frame]: readonly (PipeFrame | undefined)[] = this.#frames.push(chunk)
      if (frame) return frame.header
    }
  }
}

const CLOSED = { code: 'closed', message: 'The client is not open. Open it first.' }

test('each connection is a client of its own and is answered with code and message', async () => {
  const connections = new Connections()
  const [one, other] = [new Program(connections), new Program(connections)]
  const answers = await Promise.all([one.call({ id: 5, do: 'channels' }), other.call({ id: 5, do: 'joins' })])
  assert.deepEqual(answers, [
    { id: 5, error: CLOSED },
    { id: 5, error: CLOSED },
  ])
  const options = { endpoint: 'https://127.0.0.1:9', dataDir: '/dev/null/nowhere' }
  const connect = { id: 6, do: 'connect', manager: false, options, environment: {}, hasIdentity: true }
  const refused = (await one.call(connect, Buffer.from('agent'))) as { readonly error: { readonly code: string } }
  assert.equal(refused.error.code, 'invalid_request')
  await connections.close()
})

test('options come from the environment that the program passes', async () => {
  const connections = new Connections()
  const environment = { STATIC_RELAY: 'nonsense', STATIC_DATA_DIR: '/dev/null/nowhere' }
  const connect = { id: 1, do: 'connect', manager: true, options: {}, environment, hasIdentity: true }
  const refused = (await new Program(connections).call(connect, Buffer.from('agent'))) as {
    readonly error: { readonly message: string }
  }
  assert.match(refused.error.message, /nonsense/)
  await connections.close()
})

test('a program that sends what is not a frame loses its own connection only', async (t) => {
  const warn = t.mock.method(process, 'emitWarning', () => {})
  const connections = new Connections()
  const [wrong, right] = [new Program(connections), new Program(connections)]
  wrong.stream.resume()
  const ended = once(wrong.stream, 'end')
  wrong.stream.write(Buffer.alloc(8, 0xff))
  await ended
  assert.equal(warn.mock.callCount(), 1)
  assert.deepEqual(await right.call({ id: 1, do: 'channels' }), { id: 1, error: CLOSED })
  right.stream.resume()
  right.stream.end()
  await once(right.stream, 'end')
})
