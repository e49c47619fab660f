/** Orders a certificate by ACME (RFC 8555), proving control of the name over HTTP. */
import { peerSentence } from '@static/node/peer-text'
import { StaticError } from '@static/protocol'
import { makeKey } from '../authority/certificate.ts'
import type { Certificate } from '../server/certificate.ts'
import { startResponder } from './responder.ts'

const REQUEST_MS = 30_000
const MOST_BYTES = 1024 * 1024
/** How often the authority is asked whether it is done, and how long to wait in between. */
const POLLS = { backoffAttempts: 10, backoffMin: 1_000, backoffMax: 10_000 }

export interface AcmeOrder {
  /** A DNS name. */
  readonly name: string
  /** Where the authority may write to. */
  readonly email: string
  /** The URL of the authority's directory. */
  readonly authority: string
  /** Of the account at the authority, PEM. */
  readonly accountKey: string
  /** Where the authority's requests to port 80 of the name arrive. */
  readonly port: number
}

/**
 * Orders a certificate, with a new key. Accepts the authority's terms.
 *
 * @throws {StaticError} `connection_error` if it cannot listen on the port, `unavailable` if the authority does not issue
 *   the certificate
 */
export async function orderCertificate({ name, email, authority, accountKey, port }: AcmeOrder): Promise<Certificate> {
  const { Client, axios, crypto } = await import('acme-client')
  // Its own retries may wait as long as the authority likes; the next renewal tries again.
  Object.assign(axios.defaults, { timeout: REQUEST_MS, maxContentLength: MOST_BYTES })
  Object.assign((axios.defaults as { acmeSettings?: object }).acmeSettings ?? {}, { retryMaxAttempts: 0 })
  const client = new Client({ directoryUrl: authority, accountKey, ...POLLS })
  const responder = await startResponder(port)
  try {
    const key = makeKey()
    const [, csr] = await crypto.createCsr({ altNames: [name] }, key)
    const cert = await client.auto({
      csr,
      email,
      termsOfServiceAgreed: true,
      challengePriority: ['http-01'],
      // This machine may not reach itself by its public name.
      skipChallengeVerification: true,
      challengeCreateFn: async (_authorization, { type, token }, keyAuthorization) => {
        if (type !== 'http-01') throw new Error(`The authority offers ${type}, but not http-01.`)
        responder.answer(token, keyAuthorization)
      },
      challengeRemoveFn: async () => {},
    })
    return { cert, key }
  } catch (cause) {
    const text = `The certificate for ${name} could not be obtained from ${new URL(authority).host}: ${reasonOf(cause)}`
    throw StaticError.of('unavailable', text, { cause })
  } finally {
    await responder.close()
  }
}

/** The library reads what a server that is not there has answered, so it fails with a TypeError. */
function reasonOf(cause: unknown): string {
  if (cause instanceof TypeError) return 'it cannot be reached.'
  return peerSentence(cause instanceof Error ? cause.message : String(cause))
}
