/**
 * Makes the writes of a running process fail, as a full or broken disk does. Needs strace, and to be allowed to trace.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'

/** Calls that only databases use: histories, logs and sockets are written with others. */
const CALLS = 'pwrite64,fsync,fdatasync,ftruncate,fallocate'
const STRACE_END_MS = 5000

/** Makes the writes of a process fail for a while. */
export async function failDisk(strace: string, pid: number, error: 'EIO' | 'ENOSPC', ms: number): Promise<void> {
  const words = ['-f', '-q', '-p', String(pid), '-e', `trace=${CALLS}`, '-e', `inject=${CALLS}:error=${error}`]
  const child: ChildProcess = spawn(strace, [...words, '-o', '/dev/null'], { stdio: 'ignore' })
  const ended = once(child, 'close')
  await Promise.race([delay(ms), ended])
  child.kill('SIGINT')
  // It may wait forever for a process that has exited meanwhile.
  const late = setTimeout(() => child.kill('SIGKILL'), STRACE_END_MS)
  await ended
  clearTimeout(late)
}
