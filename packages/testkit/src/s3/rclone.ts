/** A real S3 server on loopback: rclone over a directory, with TLS and keys. `npm run proof -- files` downloads it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { S3Access } from '@static/relay'
import { certificates } from '../certificates/authority.ts'
import { quietPort } from '../ports.ts'

/** A running server with an empty bucket. */
export interface RcloneServer {
  /** How to reach the bucket, as options of a relay. */
  readonly access: Omit<S3Access, 'spool'>
  /** The file of the CA. */
  readonly caFile: string
  stop(): Promise<void>
}

const TRIES = 200
const TRY_MS = 50
const KEYS = { accessKeyId: 'AKIDRCLONE', secretAccessKey: 'secret-of-the-bucket' }
const BUCKET = 'parts'

/** The program, if the proof runs; undefined in `npm test`. */
export function rcloneProgram(): string | undefined {
  return process.env['STATIC_TEST_RCLONE'] || undefined
}

/** Starts a server. */
export async function startRclone(program: string): Promise<RcloneServer> {
  const port = await quietPort()
  const { authority, named } = await certificates()
  const folder = await mkdtemp(join(tmpdir(), 'static-rclone-'))
  const file = (name: string): string => join(folder, name)
  await mkdir(join(file('data'), BUCKET), { recursive: true })
  await writeFile(file('cert.pem'), named.cert)
  await writeFile(file('key.pem'), named.key, { mode: 0o600 })
  const { accessKeyId, secretAccessKey } = KEYS
  const words = ['serve', 's3', file('data'), '--addr', `localhost:${port}`, '--config', '/dev/null']
  words.push('--auth-key', `${accessKeyId},${secretAccessKey}`, '--cert', file('cert.pem'), '--key', file('key.pem'))
  // What another process has stored is seen at once.
  words.push('--dir-cache-time', '0s', '--vfs-cache-mode', 'off')
  const child = spawn(program, words, { stdio: 'ignore' })
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
    await rm(folder, { recursive: true, force: true })
  }
  for (let tries = 0; tries < TRIES; tries++) {
    if (await isOpen(port)) {
      const access = { endpoint: `https://localhost:${port}`, region: 'us-east-1', bucket: BUCKET, prefix: 'static' }
      return { access: { ...access, ...KEYS, ca: authority.cert }, caFile: authority.path, stop }
    }
    await delay(TRY_MS)
  }
  await stop()
  throw new Error('rclone did not start.')
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, 'localhost')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
