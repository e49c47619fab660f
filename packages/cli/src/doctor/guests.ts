/** Guests: agents without an account, most of which know their relay only from an invite link. */
import { StaticError } from '@static/protocol'
import { type AccountSettings, readCredentials, readRelayFile } from '@static/sdk/account'
import { agentsIn } from '../agent/identity.ts'
import { type Finding, ok, skipped } from './finding.ts'

const NO_API = 'not checked: guests use no API'

/** Settings that name a relay. */
export type WithRelay = AccountSettings & { readonly relay: string }

/**
 * The relays that agents on this machine know from links, each once. Files that cannot be read are left out: the check
 * of files says why.
 */
export function linkedRelays(account: AccountSettings): readonly WithRelay[] {
  const relays = new Map<string, WithRelay>()
  for (const { directory } of agentsIn(account.places.agents)) {
    const linked = linkedRelay(directory)
    if (linked === undefined) continue
    const { endpoint: relay, relayName, ca } = linked
    relays.set(relay, { ...account, relay, relayName, ca, givenCa: ca })
  }
  return [...relays.values()]
}

function linkedRelay(directory: string): ReturnType<typeof readRelayFile> {
  try {
    return readRelayFile(directory)
  } catch (error) {
    if (error instanceof StaticError) return undefined
    throw error
  }
}

/** The agents on this machine if they are guests: there is no API key, and nothing names an API. */
export function guestsOf({ apiKey, places }: AccountSettings, apiUrl: string | undefined): readonly string[] {
  const named = [apiKey, apiUrl, process.env['STATIC_API_URL'], readCredentials(places.credentials).api_url]
  return named.some(Boolean) ? [] : agentsIn(places.agents).map(({ identity, directory }) => identity ?? directory)
}

/** The findings about an account on a machine that has only guests. */
export function withoutAccount(guests: readonly string[]): readonly Finding[] {
  const skip = ['ports', 'API', 'clock', 'certificate'].map((check) => skipped(check, NO_API))
  const who = guests.length === 1 ? `${guests[0]} is a guest` : `${guests.join(', ')} are guests`
  return [...skip, ok('API key', `none is needed: ${who}`)]
}
