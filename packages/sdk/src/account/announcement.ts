/** Asks an API which relay belongs to it (SPEC.md 1.3). It is believed only after TLS has verified the API. */
import { ANNOUNCEMENT_PATH } from '@static/protocol'
import { type AnnouncedRelay, relayIn } from './announced-relay.ts'
import { callApi } from './api-call.ts'

/**
 * The relay that the API announces; undefined if it announces none that this client can use.
 *
 * @throws {StaticError} see `callApi`
 */
export async function announcedRelay(api: {
  readonly apiUrl: string
  readonly ca: string | undefined
}): Promise<AnnouncedRelay | undefined> {
  const { status, json } = await callApi({ url: new URL(ANNOUNCEMENT_PATH, api.apiUrl), method: 'GET', ca: api.ca })
  return status === 200 ? relayIn(json, api.apiUrl) : undefined
}
