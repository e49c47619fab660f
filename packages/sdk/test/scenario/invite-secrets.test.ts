/** What a relay must never learn of an invite: scanned in its memory, on its disk and in what it writes. */
import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { contentOf } from '@static/testkit/search'
import { RelayHome } from '@static/testkit/relay/process'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { decodeToken } from '../../src/admitting/token.ts'
import { NAME, TestSystem } from '../support/test-system.ts'

/** The secrets, by name, that are in the bytes: raw, hexadecimal or base64 at any alignment. */
function namesIn(secrets: Readonly<Record<string, Uint8Array>>, bytes: Buffer): string[] {
  return Object.keys(secrets).filter((name) => formsOf(secrets[name]!).some((form) => bytes.includes(form)))
}

function formsOf(secret: Uint8Array): Buffer[] {
  const bytes = Buffer.from(secret)
  // Base64 depends on the alignment: twelve bytes are sixteen characters in each of the three.
  const base64 = [0, 1, 2].map((shift) => Buffer.from(bytes.subarray(shift, shift + 12).toString('base64url')))
  return [bytes, Buffer.from(bytes.toString('hex')), ...base64]
}

const PAGE = 4096
/** Bits 63 and 62 of an entry of the page map, in its last byte: the page is in memory, or in the swap. */
const THERE = 0xc0

/** The runs of pages of a range that are there: most of what a process reserves it never touches. */
function* pagesThere(pagemap: number, from: number, to: number): Generator<{ at: number; bytes: number }> {
  const entries = Buffer.alloc(((to - from) / PAGE) * 8)
  readSync(pagemap, entries, 0, entries.length, (from / PAGE) * 8)
  const isThere = (page: number): boolean => ((entries[page * 8 + 7] ?? 0) & THERE) !== 0
  for (let page = 0; page * 8 < entries.length; page++) {
    const first = page
    while (isThere(page)) page++
    if (page > first) yield { at: from + first * PAGE, bytes: (page - first) * PAGE }
  }
}

/** The secrets that are in the memory of a process. */
function namesInMemory(secrets: Readonly<Record<string, Uint8Array>>, pid: number): string[] {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  const pagemap = openSync(`/proc/${pid}/pagemap`, 'r')
  const found = new Set<string>()
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
      const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? []
      if (from === undefined || to === undefined) continue
      for (const { at, bytes } of pagesThere(pagemap, Number.parseInt(from, 16), Number.parseInt(to, 16))) {
        const chunk = Buffer.alloc(bytes)
        let length = 0
        try {
          length = readSync(memory, chunk, 0, bytes, at)
        } catch {
          // Not everything that is mapped can be read.
        }
        for (const name of namesIn(secrets, chunk.subarray(0, length))) found.add(name)
        chunk.fill(0)
      }
    }
  } finally {
    closeSync(memory)
    closeSync(pagemap)
  }
  return [...found].sort()
}

test('token, S, Kjoin, Kwel and Kbox are found in the agent, and nowhere in the relay', async (t) => {
  const home = await RelayHome.make()
  t.after(() => home.remove())
  const relay = await home.start({})
  t.after(() => relay.close())
  const { grpc: grpcPort, quic } = relay.ports
  const { api, ca } = home
  const directory = mkdtempSync(join(tmpdir(), 'static-agents-'))
  const world = TestSystem.on(t, 'grpc', { api, ca, grpcPort, quicPorts: [quic], directory })
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  const owner = await world.manager('owner')
  const joiner = await world.manager('joiner')
  await owner.create(NAME)
  const token = await owner.invite(NAME, { maxUses: 2 })
  await joiner.joinWithToken(NAME, token, 20)
  await joiner.send(NAME, 'in')
  assert.equal(Buffer.from((await owner.receive(NAME, 20))!).toString(), 'in')

  const { secret } = decodeToken(token)
  const { join: Kjoin, welcome: Kwel, box: Kbox, admission: Kadm, inviteId } = inviteKeys(secret)
  const hidden = { token: Buffer.from(token), S: secret, Kjoin, Kwel, Kbox }
  // The control: the scan finds what the relay does know, and what the agent holds.
  assert.deepEqual(namesInMemory({ Kadm, inviteId }, relay.pid), ['Kadm', 'inviteId'])
  assert.deepEqual(namesIn({ Kadm, inviteId }, contentOf(home.directory)), ['Kadm', 'inviteId'])
  assert.deepEqual(namesInMemory({ S: secret }, process.pid), ['S'])

  assert.deepEqual(namesInMemory(hidden, relay.pid), [])
  assert.deepEqual(namesIn(hidden, contentOf(home.directory)), [])
  assert.deepEqual(namesIn(hidden, Buffer.from(relay.errors())), [])
})
