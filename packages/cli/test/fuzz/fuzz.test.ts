/** Fuzzes the socket between commands and a running agent. */
import { test } from 'node:test'
import { fuzz } from '@static/testkit/fuzz'
import { encodeFrame, FrameReader } from '../../src/agent/socket-frame.ts'

test("the agent's socket: no input crashes the reader, or takes more time than its bytes are worth", async (t) => {
  const frame = encodeFrame({ id: 1, call: 'members' })
  await fuzz(t, {
    name: 'agent-socket',
    // The last one took 130 ms when each document copied all that follow it.
    seeds: [frame, Buffer.concat([frame, frame]), Buffer.concat(Array.from({ length: 13_107 }, () => encodeFrame(1)))],
    words: ['{', '[', '"', Uint8Array.of(0, 0, 0, 1, 0x31)],
    decode: (bytes) => {
      const reader = new FrameReader()
      const cut = bytes[3] ?? 0
      reader.push(Buffer.from(bytes.subarray(0, cut)))
      reader.push(Buffer.from(bytes.subarray(cut)))
    },
  })
})
