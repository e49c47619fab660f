/** A guest's session by the agent's own code, which dials, answers, sends cover and reconnects; without MLS or a store. */
import { generateKeyPairSync, sign } from 'node:crypto'
import type { TrafficProfileName } from '@static/protocol'
import { makeGrpcTransport, makeQuicTransport, openSession, parseEndpoint } from '@static/sdk/internal'

/** Options of a guest. */
export interface GuestOptions {
  /** A relay on this machine: `quic://…` or `https://…`. */
  readonly endpoint: string
  /** PEM. */
  readonly ca: string
  readonly traffic: TrafficProfileName
  /** Called for every session that opens. */
  readonly opened?: () => void
  readonly lost?: () => void
}

const TRANSPORTS = { quic: makeQuicTransport(), grpc: makeGrpcTransport() }

/** Opens a session that stays. Resolves when it is open for the first time, with a function that closes it. */
export async function openGuest(options: GuestOptions): Promise<() => Promise<void>> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const { session, ready } = openSession({
    endpoint: parseEndpoint(options.endpoint),
    ca: options.ca,
    transports: TRANSPORTS,
    pins: new Map(),
    publicKey: new Uint8Array(Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url')),
    sign: (bytes) => new Uint8Array(sign(null, bytes, privateKey)),
    traffic: options.traffic,
    listener: {
      opened: () => options.opened?.(),
      lost: () => options.lost?.(),
      push: () => {},
      pin: () => {},
    },
  })
  await ready
  return () => session.close()
}
