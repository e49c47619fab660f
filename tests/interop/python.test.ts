import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import { file_grpc_health_v1_health } from '@static/protocol/health'
import { file_static_relay_v1_relay } from '@static/protocol/relay'
import { tokenOf } from '../support/agents.ts'
import { makeClient } from '@static/testkit/server/client'
import { signUp } from '@static/testkit/server/accounts'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

/** Debian's, which has Debian's grpcio; another one may come first in the path. */
const PYTHON = process.env['STATIC_TEST_PYTHON'] ?? '/usr/bin/python3'
const SERVING = 1

/** Runs a program of `python/` and reads what it prints. */
async function runPython(program: string, input: object): Promise<Record<string, unknown>> {
  const python = spawn(PYTHON, ['-B', join(import.meta.dirname, 'python', program)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  python.stdin.end(JSON.stringify(input))
  const [output, [code]] = await Promise.all([text(python.stdout), once(python, 'close')])
  assert.equal(code, 0)
  return JSON.parse(output) as Record<string, unknown>
}

test('two independent Python agents complete the story of a channel', async () => {
  using workspace = await makeWorkspace()
  const dataDir = workspace.directory('up')
  await using server = await startServer({ workspace, dataDir, command: 'up', settings: QUICK })
  const ca = join(dataDir, 'ca.pem')
  using client = makeClient(server.url, readFileSync(ca, 'utf8'))
  const tokens: string[] = []
  for (let count = 0; count < 2; count++) tokens.push(await tokenOf(client, (await signUp(client)).api_key.key))
  const descriptors = join(workspace.path, 'schema.bin')
  const file = [file_grpc_health_v1_health, file_static_relay_v1_relay].map(({ proto }) => proto)
  writeFileSync(descriptors, toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file })))

  const place = { host: '127.0.0.1', port: server.relay.grpcPort, serverName: 'localhost', ca }
  assert.deepEqual(await runPython('story.py', { ...place, descriptors, tokens }), {
    tls: [['TLSv1.3', 'h2'], null],
    health: [SERVING, SERVING],
    withoutToken: ['UNAUTHENTICATED', 'auth_failed'],
    opened: true,
    created: [true, 'welcome, alice'],
    subscribed: 'resume',
    forged: ['INVALID_ARGUMENT', 'invalid_request'],
    committed: [1, 1],
    welcome: ['acme/test/python', 'welcome, bob', true, 1],
    resumed: 1,
    // The second time with the same id: the first answer again.
    sent: [2, 2],
    received: [2, 1, true, 'to bob'],
    cursor: [2, true, 0],
    outOfOrder: ['ABORTED', 'out_of_order', 1],
    epochMismatch: ['ABORTED', 'epoch_mismatch', 1],
    session: true,
    ping: true,
    state: 1,
    long: 3,
    longReceived: true,
    refusedThere: ['out_of_order', 2],
    end: 'OK',
    notACell: 'INVALID_ARGUMENT',
    notTheOwner: ['NOT_FOUND', 'not_found'],
    deleted: 'acme/test/python',
    gone: 'not_found',
  })
})

test('the Python client produces the bytes of the vectors', async () => {
  const folder = resolve(import.meta.dirname, '../vectors')
  assert.deepEqual(await runPython('vectors.py', { folder }), {
    session: 6,
    leave: 2,
    commit: 5,
    roster: 2,
    vouch: 2,
    receipt: 4,
    chain: 3,
    invite: 10,
  })
})
