import { withPrivateTemp, connectQuic } from '@static/quic'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { rmSync, statSync, watch as watchFiles, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { LOOPBACKS } from '@static/testkit/ports'
import { newAuthority } from '@static/testkit/certificates'
import { quicCertificates, dial, echo, open, PEER, startPeer, startQuicBench, Watch } from '../support/quic-bench.ts'

const MIB = 1024 * 1024

void test('a peer that disconnects, and one that is killed, are noticed', async (t) => {
  const relay = await startQuicBench(t, { idleTimeoutMs: 5_000 })
  const connection = await dial(t, relay.target())
  open(connection).stream.write(Buffer.of(1))
  await relay.watch.until(() => relay.streams.length === 1)
  await connection.close()
  await relay.watch.until(() => relay.streams[0]?.closed === true)

  const child = startPeer(t, { target: relay.target(), what: 'hold', streams: 1, bytesEach: 0 })
  await relay.watch.until(() => relay.streams[1]?.chunks.length === 1)
  child.kill('SIGKILL')
  await relay.watch.until(() => relay.streams[1]?.closed === true)
  assert.deepEqual(relay.transport.sessions(), [0])
})

void test('an endpoint whose thread dies is restarted; its streams are closed, the others continue', async (t) => {
  const workers: Worker[] = []
  const note = (worker: Worker): void => void workers.push(worker)
  process.on('worker', note)
  t.after(() => process.off('worker', note))
  const relay = await startQuicBench(t, { ...echo, endpoints: 2 })
  const [first = 0, second = 0] = relay.transport.ports
  const talking = async (options: Parameters<typeof relay.target>[0]): Promise<ReturnType<typeof open>> => {
    const opened = open(await dial(t, relay.target(options)))
    opened.stream.write(Buffer.of(1))
    await opened.watch.until(() => opened.bytes() === 1)
    return opened
  }
  const doomed = await talking({ idleTimeoutMs: 1_000 })
  const other = await talking({ port: second })
  await workers[0]!.terminate()
  await relay.watch.until(() => relay.streams[0]?.closed === true)
  assert.equal(relay.streams[1]?.closed, false)
  assert.match(relay.log.join(), /died\. Restarting it/)
  assert.deepEqual(relay.transport.sessions(), [0, 1])
  assert.deepEqual(relay.transport.ports, [first, second])
  // The client is told by the new thread or finds out by itself; then it dials again.
  assert.ok(await doomed.closed)
  const again = open(await dial(t, relay.target()))
  for (const { stream, watch, bytes } of [again, other]) {
    const before = bytes()
    stream.write(Buffer.of(2))
    await watch.until(() => bytes() === before + 1)
  }
})

void test('stopping notifies the peers at once, and frees the ports', async (t) => {
  const relay = await startQuicBench(t, { ...echo, endpoints: 2 })
  const { stream, watch, bytes, closed } = open(await dial(t, relay.target()))
  stream.write(Buffer.of(1))
  await watch.until(() => bytes() === 1)
  await relay.transport.stop()
  assert.match((await closed)?.message ?? '', /server shutdown/)
  assert.ok(relay.streams[0]?.closed)
  for (const port of relay.transport.ports) {
    for (const address of LOOPBACKS) {
      const socket = createSocket(address === '::1' ? 'udp6' : 'udp4')
      socket.bind(port, address)
      await once(socket, 'listening')
      socket.close()
    }
  }
  await relay.transport.stop()
})

void test('a new certificate is served on the same ports', async (t) => {
  const { server } = await quicCertificates()
  const next = await newAuthority()
  const relay = await startQuicBench(t, { ...echo, endpoints: 2 })
  const { ports } = relay.transport
  const old = open(await dial(t, relay.target()))
  old.stream.write(Buffer.of(1))
  await relay.watch.until(() => relay.streams.length === 1)
  await assert.rejects(relay.transport.renew({ cert: server.cert, key: 'none' }), { code: 'invalid_request' })
  assert.equal(relay.streams[0]?.closed, false)

  await relay.transport.renew(await next.issue(['localhost']))
  assert.ok(relay.streams[0]?.closed)
  assert.match((await old.closed)?.message ?? '', /server shutdown/)
  assert.deepEqual(relay.transport.ports, ports)
  for (const port of ports) {
    const { stream, watch, bytes } = open(await dial(t, relay.target({ port, ca: next.cert })))
    stream.write(Buffer.of(1))
    await watch.until(() => bytes() === 1)
    await assert.rejects(connectQuic(relay.target({ port })), /not signed by a trusted CA/)
  }
})

void test('a stalled reader is closed before much is buffered for it', async (t) => {
  const relay = await startQuicBench(t)
  const child = startPeer(t, { target: relay.target(), what: 'hold', streams: 1, bytesEach: 0 })
  await relay.watch.until(() => relay.streams[0]?.chunks.length === 1)
  child.kill('SIGSTOP')
  const before = process.memoryUsage.rss()
  let written = 0
  for (; relay.streams[0]?.closed === false && written < 512 * MIB; written += MIB) {
    relay.transport.write([relay.streams[0].id], Buffer.alloc(MIB))
    // The thread of the endpoint needs its share of the processor.
    await delay(1)
  }
  assert.ok(relay.streams[0]?.closed, 'closed')
  assert.match(relay.log.join(), /too much is waiting to be read/)
  t.diagnostic(
    `closed after ${written / MIB} MiB, ${Math.round((process.memoryUsage.rss() - before) / MIB)} MiB more memory`,
  )
  child.kill('SIGKILL')
})

void test('a stream that sends more than a blocked relay can accept is closed', async (t) => {
  const { proxies } = await quicCertificates()
  const relay = await startQuicBench(t)
  const before = process.memoryUsage.rss()
  // This thread stands still until the peer has been cut off: 200 MiB would come.
  const target = relay.target()
  const alone = { target, what: 'flood', streams: 1, bytesEach: 200 * MIB }
  assert.match(
    execFileSync(process.execPath, [PEER, JSON.stringify(alone)], { encoding: 'utf8' }),
    /more was sent than/,
  )
  // Each of these stays within its own bound, all together do not.
  const proxy = { ...target, clientCertificate: proxies.issue() }
  const many = { target: proxy, what: 'flood', streams: 24, bytesEach: 7 * MIB }
  assert.match(execFileSync(process.execPath, [PEER, JSON.stringify(many)], { encoding: 'utf8' }), /cut off/)
  t.diagnostic(`${Math.round((process.memoryUsage.rss() - before) / MIB)} MiB more memory`)
  await relay.watch.until(() => relay.streams.length === 25 && relay.streams.every(({ closed }) => closed))
  const received = relay.streams.map(({ chunks }) => chunks.reduce((sum, { length }) => sum + length, 0))
  t.diagnostic(`taken afterwards: ${received.map((bytes) => Math.round(bytes / MIB)).join(' ')} MiB`)
  assert.ok(received[0]! < 10 * MIB)
})

void test('keys are never written to the shared temporary directory', async (t) => {
  const seen: string[] = []
  const changes = new Watch()
  const watcher = watchFiles(tmpdir(), (_event, name) => {
    seen.push(name ?? '')
    changes.changed()
  })
  t.after(() => watcher.close())
  const before = process.env['TMPDIR']
  const { proxies } = await quicCertificates()
  const relay = await startQuicBench(t)
  await dial(t, relay.target({ clientCertificate: proxies.issue() }))
  assert.equal(process.env['TMPDIR'], before)
  // Changes are told in order: when this one is, all before it have been.
  const last = join(tmpdir(), `static-last-${process.pid}`)
  writeFileSync(last, '')
  await changes.until(() => seen.includes(`static-last-${process.pid}`))
  rmSync(last)
  assert.deepEqual(
    seen.filter((name) => name.startsWith(`http3_${process.pid}`)),
    [],
  )
  await withPrivateTemp(async () => {
    assert.equal(statSync(tmpdir()).mode & 0o777, 0o700)
    await Promise.resolve()
  })
})
