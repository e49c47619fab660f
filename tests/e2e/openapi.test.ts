/**
 * The API does what its own description says, whatever it is asked: requests are generated from GET /openapi.json,
 * right ones, nearly right ones and garbage, by callers of every kind.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import fc, { type Arbitrary } from 'fast-check'
import { Admin, openStore, startApi } from '@static/api'
import { anyJson, anyText, matching, nearly } from '../support/arbitrary.ts'
import { type Call, makeClient } from '@static/testkit/server/client'
import { makeDatabase } from '../support/database.ts'
import { type Credential, CREDENTIALS, Guests, type Identifier, IDENTIFIERS } from '../support/guests.ts'
import { type Document, type Operation, operationsOf } from '../support/openapi.ts'
import { PASSWORD } from '@static/testkit/server/accounts'
import { SEED } from '@static/testkit/random'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { IS_WHOLE, WHOLE_ONLY } from '@static/testkit/whole'

/** STATIC_REQUESTS=20000 asks more. */
const REQUESTS = Number(process.env['STATIC_REQUESTS'] ?? (IS_WHOLE ? 1_000 : 300))
const AT_ONCE = 8
const ROUND = 250
/** How many requests of one operation are tried until one succeeds. */
const TRIES = 2_000

/** A request whose ids, keys and addresses are filled in when it is sent. */
interface Plan {
  readonly operation: Operation
  readonly who: number
  readonly credential: Credential
  readonly id: { readonly kind: Identifier } | { readonly text: string }
  readonly query: string
  readonly idempotencyKey: string | undefined
  readonly body: Body
  readonly contentType: string | undefined
}

type Body =
  | { readonly kind: 'none' }
  | { readonly kind: 'json'; readonly value: unknown; readonly real: boolean }
  | { readonly kind: 'raw'; readonly bytes: string | Uint8Array }

function bodies(operation: Operation): Arbitrary<Body> {
  const schema = operation.body ?? { type: 'object', properties: {} }
  const json = (arbitrary: Arbitrary<unknown>, real: boolean): Arbitrary<Body> =>
    arbitrary.map((value) => ({ kind: 'json', value, real }))
  const raw = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.constantFrom(
      '{',
      '{"a":1',
      '{"a":1}}',
      '\ufeff{}',
      '[',
      'nul',
      '{"a":"\u0000"}',
      '"',
      '{"name":"a","name":"b"}',
    ),
    fc.json({ maxDepth: 1 }).map((text) => text.slice(0, -1)),
    fc.constant('x'.repeat(16 * 1024 + 1)),
  )
  const none = fc.constant<Body>({ kind: 'none' })
  if (operation.body === undefined) {
    return fc.oneof({ arbitrary: none, weight: 12 }, { arbitrary: json(anyJson, false), weight: 1 })
  }
  return fc.oneof(
    { arbitrary: json(matching(schema), true), weight: 5 },
    { arbitrary: json(matching(schema), false), weight: 3 },
    { arbitrary: json(nearly(schema), true), weight: 3 },
    { arbitrary: json(nearly(schema), false), weight: 2 },
    { arbitrary: json(anyJson, false), weight: 1 },
    { arbitrary: raw.map((bytes): Body => ({ kind: 'raw', bytes })), weight: 2 },
    { arbitrary: none, weight: 1 },
  )
}

function plans(operation: Operation): Arbitrary<Plan> {
  const days = operation.parameters.find((parameter) => parameter.in === 'query')
  const query =
    days === undefined
      ? fc.oneof({ arbitrary: fc.constant(''), weight: 12 }, { arbitrary: anyText.map(encode), weight: 1 })
      : fc.oneof(
          fc.constant(''),
          matching(days.schema).map((value) => `${days.name}=${String(value)}`),
          anyText.map((text) => `${days.name}=${encode(text)}`),
          fc.tuple(anyText, anyText).map(([name, value]) => `${encode(name)}=${encode(value)}`),
          fc.constantFrom(`${days.name}=1&${days.name}=2`, `${days.name}[]=1`, '&&==', '%', 'days=0x10', 'days=1e1'),
        )
  const type = fc.constantFrom('text/plain', 'application/xml', 'application/json; charset=latin1', 'json', '*/*', '')
  return fc.record({
    operation: fc.constant(operation),
    who: fc.nat(100),
    credential: fc.constantFrom(...CREDENTIALS),
    id: fc.oneof(
      { arbitrary: fc.constantFrom(...IDENTIFIERS).map((kind) => ({ kind })), weight: 6 },
      { arbitrary: anyText.map((text) => ({ text: encode(text) })), weight: 1 },
      { arbitrary: fc.constantFrom('%', '%zz', '%ff', '%00', 'a%2fb', '*').map((text) => ({ text })), weight: 1 },
    ),
    query,
    idempotencyKey: fc.oneof(
      { arbitrary: fc.constant(undefined), weight: 8 },
      { arbitrary: fc.constantFrom('one', 'two', 'three', 'four'), weight: 2 },
      { arbitrary: fc.constantFrom('', 'a b', 'é', 'x'.repeat(256)), weight: 1 },
    ),
    body: bodies(operation),
    contentType: fc.oneof(
      { arbitrary: fc.constant('application/json'), weight: 10 },
      { arbitrary: type, weight: 1 },
      { arbitrary: fc.constant(undefined), weight: 1 },
    ),
  })
}

/** The same body with the address and the password of a guest, and a link's token, where it has proper ones. */
function truthful(body: unknown, email: string, token: string): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return body
  const fields: Record<string, unknown> = { ...body }
  const replace = (name: string, form: RegExp, value: string): void => {
    const given = fields[name]
    if (typeof given === 'string' && form.test(given)) fields[name] = value
  }
  replace('password', /^.{8,}$/, PASSWORD)
  replace('current_password', /^.{8,}$/, PASSWORD)
  replace('token', /^./, token)
  replace('email', /^[!-~]+@[!-~]+$/, email)
  return fields
}

function callOf(
  { operation, who, credential, id, query, idempotencyKey, body, contentType }: Plan,
  guests: Guests,
  token: string,
): Call {
  const target = 'kind' in id ? guests.id(who, id.kind) : id.text
  const path = operation.path.replace('{id}', () => target)
  // Signing up with an address that exists tells little more than once.
  const email = operation.name === 'POST /v1/accounts' ? `new-${who}-${Math.random()}@example.com` : guests.email(who)
  const payload =
    body.kind === 'none'
      ? undefined
      : body.kind === 'raw'
        ? body.bytes
        : JSON.stringify(body.real ? truthful(body.value, email, token) : body.value)
  return {
    method: operation.method,
    path: query === '' ? path : `${path}?${query}`,
    headers: {
      ...guests.headers(who, credential),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': Buffer.from(idempotencyKey).toString('latin1') }),
      ...(payload === undefined || contentType === undefined ? {} : { 'content-type': contentType }),
    },
    ...(payload === undefined ? {} : { raw: payload }),
  }
}

/** The API in this process, over real TLS sockets, asked `count` times. */
async function askMany(workspace: Workspace, database: string, count: number): Promise<Map<string, number>> {
  const api = await startApi({
    database,
    masterKey: randomBytes(32),
    host: '127.0.0.1',
    port: 0,
    certificate: workspace,
    settings: QUICK,
    log: { write: () => {}, pretty: false, level: 'error' },
  })
  using client = makeClient(api.url, workspace.ca, { connections: AT_ONCE })
  const store = await openStore(database)
  const admin = new Admin(store)
  const { id: linked } = await admin.create('linked@example.com', undefined, 1)
  try {
    const operations = operationsOf(await client.json<Document>(200, { path: '/openapi.json' }))
    const guests = new Guests(client, api.url)
    const seen = new Map<string, number>()
    /** By operation and fault, the first example of each. */
    const wrong = new Map<string, string>()
    const wishes = fc.sample(fc.oneof(...operations.map(plans)), { numRuns: count, seed: SEED })
    const ask = async (plan: Plan): Promise<void> => {
      const isLink = plan.operation.name === 'POST /v1/passwords'
      const call = callOf(plan, guests, isLink ? (await admin.passwordLink(linked, 1)).token : '')
      const answer = await client.call(call)
      const fault = plan.operation.judge(answer)
      if (fault !== undefined) {
        const kind = `${plan.operation.name} ${answer.status}: ${fault}`
        if (!wrong.has(kind)) wrong.set(kind, `${kind}\n  ${show(call)}\n  ${answer.text}`)
      }
      guests.learn(plan.who, plan.operation.name, call.path, answer)
      const outcome = `${plan.operation.name} ${answer.status}`
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
    }
    for (let at = 0; at < wishes.length; at += ROUND) {
      await guests.fill()
      const line = wishes.slice(at, at + ROUND)
      await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          for (let plan = line.pop(); plan !== undefined; plan = line.pop()) await ask(plan)
        }),
      )
    }
    // Requests that succeed are rare for some operations: those are asked until one does.
    for (const operation of operations) {
      const succeeded = (): boolean => [...seen.keys()].some((outcome) => outcome.startsWith(`${operation.name} 2`))
      const more = succeeded() ? [] : fc.sample(plans(operation), { numRuns: TRIES, seed: SEED })
      for (let at = 0; at < more.length && !succeeded(); at++) {
        await guests.fill()
        await ask(more[at]!)
      }
      assert.ok(succeeded(), `No request made ${operation.name} succeed: the test proves little.`)
    }
    assert.deepEqual([...wrong.values()], [], `Some answers are not as described (seed ${SEED}).`)
    return seen
  } finally {
    await store.close()
    await api.close()
  }
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

function show({ method, path, headers, raw }: Call): string {
  return `${method} ${path} ${JSON.stringify(headers)} ${JSON.stringify(typeof raw === 'string' ? raw.slice(0, 500) : raw)}`
}

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

describe(`generated requests, seed ${SEED}`, () => {
  test(`${REQUESTS} on SQLite: no 5xx, every response as described`, async (t) => {
    const seen = await askMany(workspace, join(workspace.path, 'api.sqlite'), REQUESTS)
    for (const [outcome, count] of [...seen].sort()) t.diagnostic(`${outcome}: ${count}`)
  })

  test('a quarter as many on PostgreSQL: the same', WHOLE_ONLY, async () => {
    await using database = await makeDatabase()
    await askMany(workspace, database.url, REQUESTS / 4)
  })
})
