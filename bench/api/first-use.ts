/** The first use of a key costs one Argon2 run: how long that takes, and how many fit into a second. */
import type { Client } from '@static/testkit/server/client'
import { makeKey, signUp } from '@static/testkit/server/accounts'
import { median } from './processor.ts'

const KEYS = 40
const AT_ONCE = 4

/** Figures about keys that the server has not seen since its start. */
export interface FirstUse {
  /** One at a time, median. */
  readonly latencyMs: number
  /** Four at a time. */
  readonly perSecond: number
}

/** Measures through the API, as a client meets it. */
export async function measureFirstUse(client: Client): Promise<FirstUse> {
  const { api_key: owner } = await signUp(client)
  const use = (key: string): Promise<unknown> => client.json(200, { path: '/v1/accounts/me', key })
  const times: number[] = []
  for (const key of await newKeys(client, owner.key)) {
    const started = performance.now()
    await use(key)
    times.push(performance.now() - started)
  }
  const keys = await newKeys(client, owner.key)
  const started = performance.now()
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let key = keys.pop(); key !== undefined; key = keys.pop()) await use(key)
    }),
  )
  return { latencyMs: median(times), perSecond: (KEYS * 1000) / (performance.now() - started) }
}

async function newKeys(client: Client, owner: string): Promise<string[]> {
  const keys: string[] = []
  for (let made = 0; made < KEYS; made++) keys.push((await makeKey(client, owner, { name: `first use ${made}` })).key)
  return keys
}
