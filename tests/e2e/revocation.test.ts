/** A revoked key is refused by the very next request, on every node, also under load. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Client, makeClient } from '@static/testkit/server/client'
import { startNodes } from '../support/nodes.ts'
import { makeKey, PASSWORD, signUp } from '@static/testkit/server/accounts'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { IS_WHOLE } from '@static/testkit/whole'

/** `npm run proof -- revocation` goes fifty. */
const ROUNDS = Number(process.env['STATIC_ROUNDS'] ?? (IS_WHOLE ? 3 : 1))
const AT_ONCE = 8
const ENOUGH = 60

/** Requests that started after their key had ended. */
let late = 0

interface Use {
  readonly started: number
  readonly status: number
}

const workspace = await makeWorkspace()
const nodes = await startNodes({ workspace, engine: 'postgres', count: 2, settings: QUICK })
const clients = nodes.servers.map(({ url }) => makeClient(url, workspace.ca, { connections: AT_ONCE + 1 })) as [
  Client,
  Client,
]
const { id: account, api_key: owner } = await signUp(clients[0])
after(async () => {
  for (const client of clients) client.close()
  await nodes[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

/** Uses a key from many connections at once; stops when enough uses started after `end` was called. */
class Hammer {
  readonly uses: Use[] = []
  readonly #running: Promise<unknown>
  readonly #warm = Promise.withResolvers<void>()
  #endedAt = Number.POSITIVE_INFINITY

  constructor(client: Client, key: string) {
    this.#running = Promise.all(Array.from({ length: AT_ONCE }, () => this.#strike(client, key)))
  }

  /** Resolves once the key has worked often, so that every cache knows it. */
  async warm(): Promise<void> {
    await Promise.race([this.#warm.promise, this.#running])
  }

  /** The uses that started before and after `moment`, once there are enough of them. */
  async end(moment: number): Promise<{ before: Use[]; after: Use[] }> {
    this.#endedAt = moment
    await this.#running
    return {
      before: this.uses.filter(({ started }) => started < moment),
      after: this.uses.filter(({ started }) => started >= moment),
    }
  }

  async #strike(client: Client, key: string): Promise<void> {
    for (let late = 0; late < ENOUGH / AT_ONCE;) {
      const started = performance.now()
      const { status } = await client.retry({ path: '/v1/accounts/me', key })
      this.uses.push({ started, status })
      if (this.uses.length >= ENOUGH) this.#warm.resolve()
      if (started >= this.#endedAt) late++
    }
  }
}

/** Ends a key while it is used on the other node, and looks at what was answered. */
async function endUnderLoad(user: Client, key: string, end: () => Promise<number>): Promise<void> {
  const hammer = new Hammer(user, key)
  await hammer.warm()
  assert.equal(await end(), 204)
  const { before, after } = await hammer.end(performance.now())
  assert.ok(before.filter(({ status }) => status === 200).length >= ENOUGH / 2, 'The key did not work before.')
  assert.ok(after.length >= ENOUGH)
  const wrong = after.filter(({ status }) => status !== 401)
  assert.deepEqual(wrong, [], `${wrong.length} of ${after.length} requests that started after the 204 were not refused`)
  late += after.length
}

for (let round = 1; round <= ROUNDS; round++) {
  for (const [there, here] of [
    [0, 1],
    [1, 0],
  ] as const) {
    test(`revoked on node ${there + 1} while node ${here + 1} handles requests, round ${round}`, async () => {
      const { id, key } = await makeKey(clients[0], owner.key)
      await endUnderLoad(clients[here], key, async () => {
        const revoke = { method: 'DELETE', path: `/v1/keys/${id}`, key: owner.key }
        return (await clients[there].call(revoke)).status
      })
    })
  }
}

test('revoked on the same node that handles the requests', async () => {
  const { id, key } = await makeKey(clients[0], owner.key)
  await endUnderLoad(clients[1], key, async () => {
    return (await clients[1].call({ method: 'DELETE', path: `/v1/keys/${id}`, key: owner.key })).status
  })
})

test('the account is closed on one node while its key is used on the other', async (t) => {
  await endUnderLoad(clients[1], owner.key, async () => {
    const close = { method: 'DELETE', path: `/v1/accounts/${account}`, body: { password: PASSWORD } }
    return (await clients[0].call(close)).status
  })
  t.diagnostic(`promise T9: ${2 * ROUNDS + 2} keys ended under load on two nodes, 0 of ${late} later requests accepted`)
})
