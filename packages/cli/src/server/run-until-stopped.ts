/** Runs servers in the foreground: renews certificates and shuts down cleanly. */
import { watchFile } from 'node:fs'
import { StaticError } from '@static/protocol'
import type { Certificate } from './certificate.ts'
import { notifyManager } from './notify.ts'

const RENEWAL_CHECK_MS = 3600_000
/** How often to check whether a file has changed. */
const LOOK_MS = 2000

export interface Running {
  /** Undefined if it has no certificate. */
  readonly renew?: (certificate: Certificate) => void | Promise<void>
  close(): Promise<void>
}

/**
 * Renews the certificates of running servers when one of `files` changes, on SIGHUP and every hour, and closes the
 * servers in reverse order on SIGINT or SIGTERM, or when their terminal goes away. Reports both to the service manager.
 */
export function runUntilStopped(
  servers: readonly Running[],
  certificate: () => Promise<Certificate | undefined>,
  files: readonly (string | undefined)[],
): void {
  const say = (error: unknown): void => {
    process.stderr.write(`static: certificate renewal failed: ${StaticError.from(error).message}\n`)
  }
  const renew = async (): Promise<void> => {
    const fresh = await certificate()
    // `certificate` throws for a pair that is only half replaced; the next check finds both files.
    if (fresh) for (const server of servers) await server.renew?.(fresh)
  }
  // One at a time: SIGHUP often comes together with the change of the files.
  let renewing = Promise.resolve()
  const renewSoon = (): void => {
    renewing = renewing.then(renew).catch(say)
  }
  const renewal = setInterval(renewSoon, RENEWAL_CHECK_MS)
  renewal.unref()
  for (const file of files) {
    // Polls, because notifications miss symbolic links that are redirected, as certbot does.
    if (file !== undefined) watchFile(file, { interval: LOOK_MS, persistent: false }, renewSoon)
  }
  let stopping = false
  const closeAll = async (): Promise<void> => {
    for (const server of servers.toReversed()) await server.close()
  }
  const stop = (): void => {
    // A second signal exits immediately.
    if (stopping) process.exit(1)
    stopping = true
    notifyManager('STOPPING=1')
    clearInterval(renewal)
    closeAll().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`static: ${StaticError.from(error).message}\n`)
        process.exit(1)
      },
    )
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  // From a terminal, SIGHUP means that its window was closed.
  process.on('SIGHUP', process.stdin.isTTY || process.stderr.isTTY ? stop : renewSoon)
  notifyManager('READY=1')
}

/** Exits after a fatal error, so that a supervisor can restart the process. */
export function endOnFatal(error: unknown): never {
  process.stderr.write(`static: the relay failed and stops: ${StaticError.from(error).message}\n`)
  process.exit(1)
}
