/** Typed payloads: schemas of zod, and ones that are written by hand as other libraries write theirs. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import type { Channel, StandardSchema, StaticClient } from '../../src/index.ts'
import { code, event, NAME, TestSystem } from '../support/test-system.ts'

const Order = z.object({ id: z.string(), at: z.iso.datetime().transform((text) => new Date(text)) })
const Total = z.object({ total: z.number() })

/** A schema that checks asynchronously and is a function, as those of arktype. */
const asynchronous: StandardSchema<{ total: number }> = Object.assign(() => {}, {
  '~standard': {
    version: 1 as const,
    vendor: 'hand',
    validate: async (value: unknown) => {
      await Promise.resolve()
      const { data, error } = Total.safeParse(value)
      return data
        ? { value: data }
        : { issues: (error?.issues ?? []).map(({ message }) => ({ message, path: [{ key: 'total' }] })) }
    },
  },
})

/** The check of a type: it compiles only if the type is exactly this one. */
function is<Expected>(): <Actual>(
  value: Actual & ([Actual, Expected] extends [Expected, Actual] ? unknown : never),
) => Actual {
  return (value) => value
}

async function pair(t: TestContext): Promise<{ alice: StaticClient; bob: StaticClient; a: Channel; b: Channel }> {
  const world = await TestSystem.start(t, 'grpc')
  const [alice, bob] = [await world.agent('alice'), await world.agent('bob')]
  const [a, b] = await world.channel(alice, [bob], NAME)
  return { alice, bob, a: a!, b: b! }
}

test('a handler with a schema gets typed values, and what does not fit is put aside at once with the reason', async (t) => {
  const { bob, a, b } = await pair(t)
  const poisoned = event(bob, 'poison', ({ attempts }) => attempts === 1)
  const at = '2026-11-19T00:00:00Z'
  await a.sendJson({ id: '4711', at }, { schema: Order })
  await assert.rejects(
    a.sendJson({ id: 4711, at: 'never' } as never, { schema: Order }),
    code('schema_mismatch', /^The value does not fit the schema: id: .*; at: .*\.$/),
  )
  await a.sendJson({ id: 'x', at: 'never', more: Array.from({ length: 100 }, () => 'y'.repeat(1000)) })
  await a.send('no JSON')
  await a.sendJson({ id: 'last', at })
  const got: [string, Date][] = []
  const stop = new AbortController()
  await b.handle(
    (envelope, order) => {
      is<Date>()(order.at)
      got.push([is<string>()(order.id), order.at])
      assert.equal(
        envelope.sender.agentId,
        a.members().find(({ identity }) => Buffer.from(identity).toString() === 'alice')?.agentId,
      )
      if (order.id === 'last') stop.abort()
    },
    { schema: Order, signal: AbortSignal.any([stop.signal, AbortSignal.timeout(60_000)]) },
  )
  const when = new Date(at)
  assert.deepEqual(got, [
    ['4711', when],
    ['last', when],
  ])
  assert.match((await poisoned).reason, /^The payload does not fit the schema: at: /)
  const [never, text] = b.poison.list()
  assert.deepEqual([never?.attempts, text?.attempts], [1, 1])
  assert.match(never?.reason ?? '', /^The payload does not fit the schema: at: /)
  assert.match(text?.reason ?? '', /^The payload of message \d+ is not JSON\.$/)
  // Without a schema there is no value.
  const none = b.handle((_envelope, value) => is<undefined>()(value))
  b.close()
  await none
})

test('a request and its answer are typed; the asker learns what does not fit', async (t) => {
  const { bob, a, b } = await pair(t)
  const to = bob.agentId
  const Items = z.object({ items: z.array(z.number()) })
  const serving = b.serve(
    async function* (request, { items }) {
      is<number[]>()(items)
      if (items.length === 0) return
      if (items[0] === 7) throw new RangeError('seven')
      if (items[0] === 8) yield { total: 'eight' }
      assert.equal(request.isToMe, true)
      yield { total: items.reduce((sum, item) => sum + item, 0) }
      yield { total: -1 }
    },
    { schema: Items },
  )
  for (const schema of [Total, asynchronous]) {
    const { total } = await a.askJson({ items: [1, 2] }, { to, schema })
    assert.equal(is<number>()(total), 3)
  }
  const untyped = await a.askJson({ items: [1] }, { to })
  assert.deepEqual(is<unknown>()(untyped), { total: 1 })
  const answer = await a.askOne('{"items":[5]}', { to, timeout: 60 })
  assert.equal(answer.text(), '{"total":5}')
  await assert.rejects(
    a.askJson({ items: [8] }, { to, schema: Total }),
    code('schema_mismatch', /^The answer does not fit the schema: total: /),
  )
  await assert.rejects(a.askJson({ items: [8] }, { to, schema: asynchronous }), code('schema_mismatch', /: total: /))
  const misfit = a.askJson({ items: 'no' }, { to })
  await assert.rejects(misfit, (error: Error) => {
    const { details } = error as never as { details: { answer: { code: string; message: string } } }
    assert.equal(details.answer.code, 'schema_mismatch')
    assert.match(details.answer.message, /^The request does not fit the schema: items: /)
    return code('ask_failed')(error)
  })
  await assert.rejects(a.askOne('no JSON', { to }), code('ask_failed', /invalid_json/))
  await assert.rejects(a.askOne('{"items":[7]}', { to }), code('ask_failed', /internal_error/))
  await assert.rejects(a.askOne('{"items":[]}', { to }), code('ask_failed', /ended its answer without a payload\.$/))
  // Bad input asks nothing.
  await assert.rejects(a.askOne('x', {} as never), code('invalid_request', /^`to` is required/))
  await assert.rejects(a.askOne('x', undefined as never), code('invalid_request', /must be an object, not undefined/))
  await assert.rejects(a.askOne('x', { to: 'ff'.repeat(32) }), code('not_found'))
  await assert.rejects(a.askJson(1n, { to }), code('invalid_request', /JSON/))
  for (const schema of [{}, null, () => {}, { '~standard': {} }, 'zod'])
    await assert.rejects(
      a.askJson({}, { to, schema: schema as never }),
      code('invalid_request', /`schema` of `askJson` is .* a Standard Schema/),
    )
  await assert.rejects(a.askOne('x', { to, signal: AbortSignal.abort() }), code('cancelled'))
  assert.deepEqual(a.asked(), [])
  b.close()
  await serving
  await assert.rejects(a.askOne('late', { to, timeout: 0.05 }), code('ask_timeout'))
  // @ts-expect-error -- the member to ask is required
  void a.askOne('x', {}).catch(() => {})
  // @ts-expect-error -- what the schema does not accept does not compile
  void a.sendJson({ total: 'three' }, { schema: Total }).catch(() => {})
})
