/** A QUIC peer in a process of its own, which can be stopped, killed, or run while the relay's thread is blocked. */
import { connectQuic } from '@static/quic'
import type { PeerOrder } from './quic-bench.ts'

const { target, what, streams, bytesEach } = JSON.parse(process.argv[2] ?? '') as PeerOrder
const connection = await connectQuic(target)
const reasons: string[] = []
const closed: Promise<void>[] = []

for (let count = 0; count < streams; count++) {
  const { promise, resolve } = Promise.withResolvers<void>()
  closed.push(promise)
  const stream = connection.openStream({
    data: () => {},
    closed: (reason) => {
      reasons.push(reason?.message ?? '')
      resolve()
    },
  })
  stream.write(Buffer.of(1))
  if (what === 'flood') {
    let left = bytesEach
    const more = (): void => {
      for (; left > 0 && stream.bufferedBytes < 256 * 1024; left -= 64 * 1024)
        stream.write(Buffer.alloc(64 * 1024, count))
      if (left > 0) setImmediate(more)
    }
    more()
  }
}
if (what === 'flood') {
  // One of them is enough: the others may be within their bounds.
  await Promise.race(closed)
  console.log(JSON.stringify(reasons))
  await connection.close()
}
