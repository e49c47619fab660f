/** The life of servers in the foreground: fresh certificates, and an orderly end. */
import { StaticError } from '@static/protocol'
import type { Certificate } from './certificate.ts'

const RENEWAL_CHECK_MS = 3600_000

/** A server that runs. */
export interface Running {
  renew(certificate: Certificate): void | Promise<void>
  close(): Promise<void>
}

/** Keeps the certificate of running servers fresh and ends them, the last one first, when the process is asked to stop. */
export function runUntilStopped(
  servers: readonly Running[],
  certificate: () => Promise<Certificate | undefined>,
): void {
  const say = (error: unknown): void => {
    process.stderr.write(`static: the certificate was not renewed: ${StaticError.from(error).message}\n`)
  }
  const renew = async (): Promise<void> => {
    const fresh = await certificate()
    // Of a pair whose files are just being replaced nothing is taken; the next look finds it whole.
    if (fresh) for (const server of servers) await server.renew(fresh)
  }
  const renewal = setInterval(() => void renew().catch(say), RENEWAL_CHECK_MS)
  renewal.unref()
  let stopping = false
  const closeAll = async (): Promise<void> => {
    for (const server of servers.toReversed()) await server.close()
  }
  const stop = (): void => {
    // The second signal means it.
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

/** Ends a process whose server cannot go on: its supervisor starts it anew. */
export function endOnFatal(error: unknown): never {
  process.stderr.write(`static: the relay cannot go on: ${StaticError.from(error).message}\n`)
  process.exit(1)
}
