/** Runs servers in the foreground: renews certificates and shuts down cleanly. */
import { StaticError } from '@static/protocol'
import type { Certificate } from './certificate.ts'

const RENEWAL_CHECK_MS = 3600_000

/** A running server. */
export interface Running {
  renew(certificate: Certificate): void | Promise<void>
  close(): Promise<void>
}

/** Renews the certificates of running servers, and closes the servers in reverse order on SIGINT or SIGTERM. */
export function runUntilStopped(
  servers: readonly Running[],
  certificate: () => Promise<Certificate | undefined>,
): void {
  const say = (error: unknown): void => {
    process.stderr.write(`static: certificate renewal failed: ${StaticError.from(error).message}\n`)
  }
  const renew = async (): Promise<void> => {
    const fresh = await certificate()
    // `certificate` throws for a pair that is only half replaced; the next check finds both files.
    if (fresh) for (const server of servers) await server.renew(fresh)
  }
  const renewal = setInterval(() => void renew().catch(say), RENEWAL_CHECK_MS)
  renewal.unref()
  let stopping = false
  const closeAll = async (): Promise<void> => {
    for (const server of servers.toReversed()) await server.close()
  }
  const stop = (): void => {
    // A second signal exits immediately.
    if (stopping) process.exit(1)
    stopping = true
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
}

/** Exits after a fatal error, so that a supervisor can restart the process. */
export function endOnFatal(error: unknown): never {
  process.stderr.write(`static: the relay failed and stops: ${StaticError.from(error).message}\n`)
  process.exit(1)
}
