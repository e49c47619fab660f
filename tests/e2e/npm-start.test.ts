/** `npm start` and the server behind it end together, however npm ends. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())
const root = resolve(import.meta.dirname, '../..')

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  void test(`${signal} to npm ends the server`, signal === 'SIGTERM' ? WHOLE_ONLY : {}, async () => {
    const flags = ['--data-dir', workspace.directory(signal), '--json', '--log-level', 'silent']
    const ports = ['--api-port', '0', '--grpc-port', '0', '--quic-port', '0', '--no-files']
    const words = ['start', '--silent', '--', ...flags, ...ports]
    const npm = spawn('npm', words, { cwd: root, stdio: ['ignore', 'pipe', 'ignore'] })
    const [line] = (await once(createInterface(npm.stdout), 'line')) as [string]
    const { api_url: url } = JSON.parse(line) as { api_url: string }
    const port = Number(new URL(url).port)
    assert.equal(await isOpen(port), true)
    npm.kill(signal)
    // The server has the other end of this pipe: it closes when the last of them ends.
    await once(npm.stdout, 'close')
    assert.equal(await isOpen(port), false)
  })
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => done(true)).once('error', () => done(false))
    socket.once('connect', () => socket.destroy())
  })
}
