/**
 * @currentspace/http3 0.9.0 hands keys and certificates to its TLS library through files: it writes
 * `http3_<process id>_qkey.pem` into the temporary directory, readable by everybody, reads it and deletes it. In /tmp
 * any local user could read the server's key there, or put a certificate of their own in its place; and two threads
 * that start at once would take each other's files. So each use gets a directory `TMPDIR` of its own, one at a time.
 *
 * The native side reads the real environment of the process, which only the main thread can change: call it there.
 */
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Runs what makes the library read keys and certificates, protected as `withPrivateTemp` does it. */
export type Shield = <Result>(use: () => Promise<Result>) => Promise<Result>

let directory: string | undefined
let queue: Promise<unknown> = Promise.resolve()

/** Runs `use`, in which the library reads keys and certificates, with a temporary directory that nobody else can see. */
export async function withPrivateTemp<Result>(use: () => Promise<Result>): Promise<Result> {
  const result = queue.then(async () => {
    const before = process.env['TMPDIR'] // oxlint-disable-line node/no-process-env -- see above
    process.env['TMPDIR'] = privateDirectory() // oxlint-disable-line node/no-process-env
    try {
      return await use()
    } finally {
      if (before === undefined) delete process.env['TMPDIR'] // oxlint-disable-line node/no-process-env
      else process.env['TMPDIR'] = before // oxlint-disable-line node/no-process-env
    }
  })
  queue = result.catch(() => {})
  return await result
}

/** Made with mode 0700 on first use, and kept: whatever else the process puts there meanwhile stays. */
function privateDirectory(): string {
  if (directory !== undefined) return directory
  const made = mkdtempSync(join(tmpdir(), 'static-quic-'))
  process.once('exit', () => {
    try {
      rmdirSync(made)
    } catch {
      // Something else is in it, or it is gone: neither is ours to mend.
    }
  })
  directory = made
  return made
}
