/** The schema of an answer is an allow-list: a field that a rule returns by mistake never leaves the server. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startBench } from '../support.ts'

test('nothing outside the schema of a response is sent, at any depth', async () => {
  const bench = await startBench('sqlite')
  try {
    const { api_key: own } = await bench.signUp()
    const { accounts, keys } = bench.api.service
    const account = accounts.own.bind(accounts)
    const list = keys.list.bind(keys)
    const leak = { password_hash: 'secret' }
    accounts.own = async (...args) => ({ ...(await account(...args)), ...leak })
    keys.list = async (...args) => (await list(...args)).map((key) => ({ ...key, ...leak }))

    const one = await bench.call('GET', '/v1/accounts/me', { key: own.key })
    assert.equal(one.status, 200)
    assert.deepEqual(Object.keys(one.body), ['id', 'email', 'name', 'plan', 'status', 'created_at'])
    const all = await bench.call('GET', '/v1/keys', { key: own.key })
    assert.equal(all.status, 200)
    assert.equal(all.body.keys[0].id, own.id)
    assert.doesNotMatch(JSON.stringify(all.body), /secret|password_hash/)
  } finally {
    await bench.close()
  }
})
