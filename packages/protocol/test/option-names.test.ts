import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkOptionNames, StaticError } from '../src/index.ts'

const KNOWN = ['maxUses', 'ttl', 'admit', 'acceptNewKey', 'connectTimeoutMs', 'dataDir'] as const

/** The remedy for an option that the call does not know. */
function remedyFor(name: string): string {
  try {
    checkOptionNames('call', { ttl: 1, [name]: undefined }, KNOWN)
  } catch (error) {
    assert.ok(error instanceof StaticError)
    assert.equal(error.code, 'invalid_request')
    const [, remedy] = /^`call` has no option `[^`]*`\. (.*)$/s.exec(error.message) ?? []
    assert.ok(remedy !== undefined, error.message)
    return remedy
  }
  assert.fail(`${name} was accepted.`)
}

test('an option that a call does not know is refused with the nearest name', () => {
  const near = {
    uses: 'maxUses',
    max_uses: 'maxUses',
    maxuses: 'maxUses',
    maxUse: 'maxUses',
    'max-uses': 'maxUses',
    lttl: 'ttl',
    tlt: 'ttl',
    TTL: 'ttl',
    admits: 'admit',
    addmit: 'admit',
    acceptKey: 'acceptNewKey',
    connectTimeout: 'connectTimeoutMs',
    dir: 'dataDir',
    datadri: 'dataDir',
  }
  for (const [name, nearest] of Object.entries(near))
    assert.equal(remedyFor(name), `The nearest is \`${nearest}\`.`, name)
})

test('where no name is near, the call lists those it takes', () => {
  const all = 'It takes `maxUses`, `ttl`, `admit`, `acceptNewKey`, `connectTimeoutMs` and `dataDir`.'
  for (const name of ['colour', '', 'x', '0', 'm'.repeat(100_000)]) assert.equal(remedyFor(name), all)
  assert.throws(() => checkOptionNames('call', { y: 1 }, ['by']), /It takes only `by`\.$/)
})

test('options that are no object are refused, and a secret among them is not repeated', () => {
  const wrong: Readonly<Record<string, unknown>> = {
    'a string': 'x',
    'a number': 5,
    null: null,
    undefined,
    'a list': [{ ttl: 1 }],
  }
  for (const [kind, options] of Object.entries(wrong)) {
    const expected = { code: 'invalid_request', message: `The options of \`call\` must be an object, not ${kind}.` }
    assert.throws(() => checkOptionNames('call', options, KNOWN), expected)
  }
  const token = 'st_inv_Q7r2Xw9LQ7r2Xw9L'
  assert.throws(() => checkOptionNames('call', { [token]: 1 }, KNOWN), { message: /`st_inv_…`/ })
})
