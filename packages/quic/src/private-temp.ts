/**
 * @currentspace/http3 0.9.0 passes keys and certificates to its TLS library through files: it writes
 * `http3_<process id>_qkey.pem` into the temporary directory, readable by everyone, reads it and deletes it. In /tmp
 * any local user could read the server's key, or replace a certificate with their own; and two threads that start at
 * the same time would use each other's files. So `TMPDIR` is a private directory during each use, one use at a time.
 *
 * The native side reads the real environment of the process, which only the main thread can change: call it there.
 */
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Runs code that makes the library read keys and certificates, protected like `withPrivateTemp`. */
export type Shield = <Result>(use: () => Promise<Result>) => Promise<Result>

let directory: string | undefined
let queue: Promise<unknown> = Promise.resolve()

/** Runs `use`, in which the library reads keys and certificates, with a private temporary directory. */
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

/** Created with mode 0700 on first use, and kept: other parts of the process may put files there meanwhile. */
function privateDirectory(): string {
  if (directory !== undefined) return directory
  const made = mkdtempSync(join(tmpdir(), 'static-quic-'))
  process.once('exit', () => {
    try {
      rmdirSync(made)
    } catch {
      // It is not empty, or already gone: neither is a problem here.
    }
  })
  directory = made
  return made
}
