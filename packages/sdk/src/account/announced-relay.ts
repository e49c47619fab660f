/** Which relay of an announcement a client uses (SPEC.md 2). Pure: `announcement.ts` fetches it. */
import type { ServerAnnouncement } from '@static/protocol'
import { type Endpoint, isLoopback, parseEndpoint } from './endpoint.ts'

/** The relay of an API, as its announcement names it. */
export interface AnnouncedRelay {
  readonly endpoint: string
  /** The name in the relay's certificate, if the endpoint is an IP address. */
  readonly relayName?: string
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
  for (const text of Array.isArray(relay) ? relay.slice(0, MOST_ENDPOINTS) : []) {
    if (typeof text !== 'string' || text.length > LONGEST_ENDPOINT) continue
    const endpoint = readEndpoint(text, relayName)
    if (endpoint === undefined || (!isHere && endpoint.addresses.some(({ host }) => THIS_MACHINE.test(host)))) continue
    return { endpoint: endpoint.url, ...(relayName === undefined ? {} : { relayName }) }
  }
  return undefined
}

function readEndpoint(text: string, relayName: string | undefined): Endpoint | undefined {
  try {
    return parseEndpoint(text, { relayName })
  } catch {
    return undefined
  }
}
