/** Which relay of an announcement a client uses (SPEC.md 2). Pure: `announcement.ts` fetches it. */
import type { ServerAnnouncement } from '@static/protocol'
import { type Endpoint, isLoopback, parseEndpoint } from './endpoint.ts'

/** The relay of an API, as its announcement names it. */
export interface AnnouncedRelay {
  readonly endpoint: string
  /** The name in the relay's certificate, if the endpoint is an IP address. */
  readonly relayName?: string
  /** Its gRPC port, if that is announced beside a QUIC endpoint. */
  readonly grpcPort?: number
}

/** Maximum number of endpoints that are read, and of characters in each. */
const MOST_ENDPOINTS = 8
const LONGEST_ENDPOINT = 2048
/** Hosts, as `parseEndpoint` normalizes them, that a system may resolve to the machine itself. */
const THIS_MACHINE = /^(?:0\.|127\.|::1?$|::ffff:)|(?:^|\.)localhost$/

/**
 * The first endpoint that the API announces and that this client understands; undefined if there is none. An API on
 * another machine cannot announce a relay on this one.
 */
export function relayIn(announcement: unknown, apiUrl: string): AnnouncedRelay | undefined {
  const { relay, relay_name: name } = (announcement ?? {}) as Partial<Record<keyof ServerAnnouncement, unknown>>
  const isHere = isLoopback(new URL(apiUrl).hostname.replaceAll(/[[\]]/g, ''))
  const relayName = typeof name === 'string' ? name : undefined
  const texts: readonly unknown[] = Array.isArray(relay) ? relay.slice(0, MOST_ENDPOINTS) : []
  const usable = texts
    .filter((text) => typeof text === 'string' && text.length <= LONGEST_ENDPOINT)
    .map((text) => readEndpoint(text as string, relayName))
    .filter((endpoint) => endpoint !== undefined)
    .filter(({ addresses }) => isHere || !addresses.some(({ host }) => THIS_MACHINE.test(host)))
  const [first] = usable
  if (first === undefined) return undefined
  const grpcPort = grpcPortOf(first, usable)
  return {
    endpoint: first.url,
    ...(relayName === undefined ? {} : { relayName }),
    ...(grpcPort === undefined ? {} : { grpcPort }),
  }
}

/** Where UDP is blocked, clients dial gRPC at the hosts of the QUIC endpoint, so only the port at these hosts counts. */
function grpcPortOf(first: Endpoint, usable: readonly Endpoint[]): number | undefined {
  if (first.way !== 'quic') return undefined
  const hosts = new Set(first.addresses.map(({ host }) => host))
  const addresses = usable.filter(({ way }) => way === 'grpc').flatMap((endpoint) => endpoint.addresses)
  return addresses.find(({ host }) => hosts.has(host))?.port
}

function readEndpoint(text: string, relayName: string | undefined): Endpoint | undefined {
  try {
    return parseEndpoint(text, { relayName })
  } catch {
    return undefined
  }
}
