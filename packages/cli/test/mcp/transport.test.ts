/** Hosts that do not read, or write what no honest host writes. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { PassThrough, Writable } from 'node:stream'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { HostTransport } from '../../src/mcp/transport.ts'

const MIB = 1024 * 1024

/** A transport whose answers to requests have one MiB, and a host that reads one answer when told. */
async function serve(): Promise<{
  readonly stdin: PassThrough
  readonly got: unknown[]
  readonly seen: readonly string[]
  readonly closed: Promise<undefined>
  readonly read: () => void
}> {
  const stdin = new PassThrough()
  const reads: (() => void)[] = []
  const stdout = new Writable({ decodeStrings: false, write: (_chunk, _encoding, done) => void reads.push(done) })
  const closed = Promise.withResolvers<undefined>()
  const seen: string[] = []
  const transport = new HostTransport(
    {
      arrived: (id) => seen.push(`asked ${id}`),
      answered: (id) => seen.push(`answered ${id}`),
      cancelled: () => {},
      closed: () => closed.resolve(undefined),
    },
    stdin,
    stdout,
  )
  const got: unknown[] = []
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport is no EventTarget
  transport.onmessage = (message) => {
    if (!('id' in message) || message.id === undefined) return
    got.push(message.id)
    const answer = { jsonrpc: '2.0', id: message.id, result: { text: 'x'.repeat(MIB) } } as const
    transport.send(answer).catch(() => {})
  }
  await transport.start()
  return { stdin, got, seen, closed: closed.promise, read: () => reads.shift()?.() }
}

function request(id: number, text = ''): string {
  return `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list', params: { text } })}\n`
}

test('requests wait while the host does not read, in order, and the end of stdin is found at once', async () => {
  const { stdin, got, seen, closed, read } = await serve()
  for (let id = 0; id < 60; id++) stdin.write(request(id))
  await turn()
  // They have arrived, those that wait, too; none is answered until the host has read it.
  assert.deepEqual(
    seen,
    Array.from({ length: 60 }, (_, id) => `asked ${id}`),
  )
  const before = got.length
  assert.ok(before >= 32 && before < 40, `${before} requests were taken`)
  for (let count = 0; count < 60; count++) {
    read()
    await turn()
    assert.equal(seen.at(-1), `answered ${count}`)
  }
  assert.deepEqual(
    got,
    Array.from({ length: 60 }, (_, id) => id),
  )
  for (let id = 60; id < 120; id++) stdin.write(request(id))
  await turn()
  assert.ok(got.length < 120)
  stdin.end()
  await closed
})

test('a host that sends ever more without reading is given up', async () => {
  const { stdin, closed } = await serve()
  for (let id = 0; id < 60; id++) stdin.write(request(id, 'y'.repeat(MIB / 2)))
  await closed
})

test('a line that is too long ends it', async () => {
  const { stdin, closed } = await serve()
  for (let count = 0; count < 11; count++) stdin.write('x'.repeat(MIB))
  await closed
})

test('the end of stdin ends it', async () => {
  const { stdin, closed } = await serve()
  const ended = once(stdin, 'end')
  stdin.end(request(1))
  await Promise.all([ended, closed])
})
