/** Sign-in does not tell which e-mail addresses have an account: not by status, body, headers or time. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Problem } from '@static/protocol'
import { type Answer, makeClient } from '@static/testkit/server/client'
import { signUp } from '@static/testkit/server/accounts'
import { startServer } from '@static/testkit/server'
import { HIGH_RATES } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

const TRIES = 40
const ROUNDS_AT_MOST = 8

const workspace = await makeWorkspace()
// Argon2id at its real cost; only the rates are raised.
const dataDir = workspace.directory('data')
const server = await startServer({ workspace, dataDir, settings: { rates: HIGH_RATES }, logLevel: 'silent' })
const client = makeClient(server.url, workspace.ca, { connections: 1 })
const known = (await signUp(client, 'known@example.com')).email
const unknown = 'nobody@example.com'
after(async () => {
  client.close()
  await server.end('SIGKILL')
  workspace[Symbol.dispose]()
})

const signIn = (email: string): Promise<Answer> =>
  client.call({ method: 'POST', path: '/v1/sessions', body: { email, password: 'not the password' } })

async function timed(work: () => Promise<Answer>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}

/** The chance that one of the first takes longer than one of the second: 0.5 if nothing tells them apart. */
function auc(first: readonly number[], second: readonly number[]): number {
  let wins = 0
  for (const a of first) for (const b of second) wins += a > b ? 1 : a === b ? 0.5 : 0
  return wins / (first.length * second.length)
}

/** Asks both in turn, so that a busy machine hits both alike; the order within a pair alternates. */
async function interleaved(
  one: () => Promise<Answer>,
  other: () => Promise<Answer>,
): Promise<{ ones: number[]; others: number[] }> {
  const ones: number[] = []
  const others: number[] = []
  for (let at = 0; at < TRIES; at++) {
    if (at % 2 === 0) ones.push(await timed(one))
    others.push(await timed(other))
    if (at % 2 === 1) ones.push(await timed(one))
  }
  return { ones, others }
}

test('status, body and headers are the same', async () => {
  const [right, wrong] = [await signIn(known), await signIn(unknown)]
  assert.equal(right.status, 401)
  assert.equal(wrong.status, 401)
  const plain = ({ text }: Answer): object => ({ ...(JSON.parse(text) as Problem), request_id: '' })
  assert.deepEqual(plain(right), plain(wrong))
  const headers = ({ headers: all }: Answer): object => ({
    ...all,
    'x-request-id': '',
    date: '',
    // The address has one more failure by now, and less time to wait.
    ratelimit: all['ratelimit']?.toString().replace(/"failures";r=\d+;t=\d+/, ''),
  })
  assert.deepEqual(headers(right), headers(wrong))
})

test('the time is the same', async (t) => {
  // A burst on a shared machine can push one round out; a real difference shows in every round.
  const seen: number[] = []
  for (let round = 0; round < ROUNDS_AT_MOST; round++) {
    const { ones, others } = await interleaved(
      () => signIn(known),
      () => signIn(unknown),
    )
    const chance = auc(ones, others)
    seen.push(chance)
    t.diagnostic(`AUC of known over unknown: ${chance.toFixed(2)}`)
    if (chance > 0.2 && chance < 0.8) return
  }
  assert.fail(`Time tells known from unknown: AUC ${seen.join(', ')}`)
})

test('the measurement does detect the cost of an Argon2 run', async (t) => {
  const seen: number[] = []
  for (let round = 0; round < ROUNDS_AT_MOST; round++) {
    const { ones, others } = await interleaved(
      () => signIn(known),
      () => client.call({ path: '/health/ready' }),
    )
    const chance = auc(ones, others)
    seen.push(chance)
    t.diagnostic(`AUC of sign-in over a call without Argon2: ${chance.toFixed(2)}`)
    if (chance >= 0.95) return
  }
  assert.fail(`The cost is not seen: AUC ${seen.join(', ')}`)
})
