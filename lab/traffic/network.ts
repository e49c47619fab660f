/** A separate network without other traffic: a namespace with a loopback whose packets look as on Ethernet. */
import { spawnSync, type SpawnSyncReturns } from 'node:child_process'

const INSIDE = 'STATIC_TRAFFIC_NAMESPACE'
/** Settings of Ethernet. Without the last one the kernel would hand over many packets as one. */
const LOOPBACK = ['link', 'set', 'lo', 'up', 'mtu', '1500', 'gso_max_segs', '1']

/** Whether this process is in such a network. */
export function isInside(): boolean {
  return process.env[INSIDE] === '1'
}

/** Why there can be no such network here, in one sentence; nothing when there can. */
export function obstacle(): string | undefined {
  const { status, error } = spawnSync('unshare', ['--net', 'true'], { stdio: 'ignore' })
  if (!error && status === 0) return undefined
  return 'A network namespace cannot be made here: it needs root (CAP_SYS_ADMIN) on Linux.'
}

/** Runs a program in a network of its own and waits for its end. */
export function runInside(
  file: string,
  output: 'inherit' | 'pipe',
  words: readonly string[] = [],
): SpawnSyncReturns<string> {
  return spawnSync('unshare', ['--net', process.execPath, file, ...words], {
    encoding: 'utf8',
    stdio: ['ignore', output, 'inherit'],
    env: { ...process.env, [INSIDE]: '1' },
  })
}

/** Makes the loopback of this network ready. */
export function raiseLoopback(): void {
  const { status, stderr, error } = spawnSync('ip', LOOPBACK, { encoding: 'utf8' })
  if (error || status !== 0) throw new Error(`The loopback cannot be set up: ${error?.message ?? stderr}`)
}
