/** Handlers that fail do not fail in silence. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClientOptions, StaticClient } from '../../src/index.ts'
import { code, event, NAME, TestSystem } from '../support/test-system.ts'

/** A guest that connects as applications do. */
async function guest(world: TestSystem, identity: string, options: ClientOptions): Promise<StaticClient> {
  const { relay } = world
  const place = { endpoint: `https://localhost:${relay.grpcPort}`, ca: relay.ca, apiKey: null }
  return await StaticClient.connect({ ...place, identity, dataDir: world.directoryOf(identity), ...options })
}

test('a handler that fails is reported on stderr with its stack, unless the application reads events or logs', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const alice = await world.agent('alice')
  const channel = await alice.createChannel(NAME)
  const printed: string[] = []
  const write = process.stderr.write.bind(process.stderr)
  t.mock.method(process.stderr, 'write', (text: string, ...rest: never[]) => {
    if (!text.startsWith('static: ')) return write(text, ...rest)
    printed.push(text)
    return true
  })
  const logged: string[] = []
  await using silent = await guest(world, 'silent', { logger: false })
  await using logging = await guest(world, 'logging', { logger: { warn: (text) => void logged.push(text) } })
  await using usual = await guest(world, 'usual', {})
  await using reading = await guest(world, 'reading', {})
  const failed: Promise<unknown>[] = []
  for (const client of [silent, logging, usual, reading]) {
    const joined = await client.joinChannel(NAME, await channel.addMember(await client.generateKeyPackage()))
    // A listener of the SDK's own is no reader.
    joined.waitForMember('00'.repeat(32)).catch(() => {})
    if (client === reading) failed.push(event(client, 'handler_failed'))
    const { promise, resolve } = Promise.withResolvers<void>()
    failed.push(promise)
    const work = joined.handle((envelope) => {
      setImmediate(resolve)
      throw new TypeError(`cannot do ${envelope.text()}`)
    })
    work.catch(() => {})
  }
  await channel.send('the very private payload')
  await Promise.all(failed)
  for (const texts of [printed, logged]) {
    assert.equal(texts.length, 1, texts.join('\n'))
    const [text = ''] = texts
    assert.match(
      text,
      /^static: The handler of `handle` failed on message [0-9a-f]{32} from agent .{8}… in channel acme\/support\/routing, attempt 1\. It is called again in 1 s\.\nTypeError: cannot do …\n\s+at .*logging\.test\.ts/,
    )
    assert.doesNotMatch(text, /private|payload/)
  }
})

test('anything but a logger is refused', async () => {
  for (const logger of [true, {}, null, 'console']) {
    const options = { endpoint: 'quic://localhost', dataDir: '/none', identity: 'a', logger: logger as never }
    await assert.rejects(
      StaticClient.connect(options),
      code('invalid_request', /^`logger` is .* method `warn`, or be false\.$/),
    )
  }
})
