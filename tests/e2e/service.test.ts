/** The server as a systemd service: the unit is valid and hardened, and the manager learns when the server is ready. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { startCommand } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { PYTHON } from '../python/installed.ts'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())
const DEPLOY = resolve(import.meta.dirname, '../../deploy')

/** Prints every datagram that arrives at a socket. Node has no such sockets. */
const LISTENER = `
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
print("listening", flush=True)
while True:
    print(listener.recv(4096).decode().replace("\\n", " "), flush=True)
`

const missing = (program: string): string | false =>
  ['/usr/bin', '/bin'].some((folder) => existsSync(join(folder, program))) ? false : `${program} is not installed`

test('the units pass the checks of systemd', { skip: missing('systemd-analyze') }, () => {
  const units = globSync('*.service', { cwd: DEPLOY }).map((name) => {
    // The program of the unit is not installed here.
    const text = readFileSync(join(DEPLOY, name), 'utf8')
    return workspace.file(name, text.replaceAll('/opt/static/node_modules/.bin/static', '/bin/true'))
  })
  assert.equal(units.length, 4)
  const verified = spawnSync('systemd-analyze', ['verify', ...units], { encoding: 'utf8' })
  assert.equal(verified.status, 0, verified.stderr)
  // From 0, fully confined, to 100.
  const words = ['security', '--offline=true', '--threshold=25', ...units]
  const rated = spawnSync('systemd-analyze', words, { encoding: 'utf8' })
  assert.equal(rated.status, 0, rated.stdout)
})

test(
  'the service manager is told when the server is ready and when it stops',
  { skip: missing('systemd-notify') },
  async () => {
    const socket = join(workspace.path, 'notify.sock')
    const manager = spawn(PYTHON, ['-c', LISTENER, socket], { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      const lines = createInterface({ input: manager.stdout })[Symbol.asyncIterator]()
      const next = async (): Promise<string> => {
        // The barrier only asks the manager to have read what came before it.
        for (;;) {
          const { value } = (await lines.next()) as { value: string }
          if (value !== 'BARRIER=1') return value
        }
      }
      assert.equal(await next(), 'listening')
      const words = [
        'api',
        '--json',
        '--insecure-http',
        '--api-port',
        '0',
        '--data-dir',
        workspace.directory('notified'),
      ]
      await using server = await startCommand(words, { env: { NOTIFY_SOCKET: socket } })
      assert.equal(await next(), 'READY=1')
      const ended = server.end('SIGTERM')
      assert.equal(await next(), 'STOPPING=1')
      assert.deepEqual(await ended, { code: 0, signal: null })
    } finally {
      manager.kill()
    }
  },
)
