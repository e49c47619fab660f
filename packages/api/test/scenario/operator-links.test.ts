import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Admin, openStore } from '../../src/index.ts'
import type { Store } from '../../src/ports.ts'
import { newId } from '../../src/rules/id.ts'
import { parseOneTimeToken } from '../../src/secrets/one-time-token.ts'
import { type Answer, assertProblem, type Bench, cookieOf, onSomeEngine, startBench } from '../support.ts'

const HOUR = 3600_000
const NEXT = 'a password from a link'

onSomeEngine('links of the operator', (engine) => {
  let bench: Bench
  let store: Store
  let admin: Admin
  before(async () => {
    bench = await startBench(engine, { signup: 'invite' })
    store = await openStore(bench.database)
    admin = new Admin(store, () => bench.clock.now)
  })
  after(async () => {
    await store.close()
    await bench.close()
  })

  let people = 0
  const address = (): string => `guest-${++people}@example.com`
  const signUp = (email: string, invite?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    bench.call('POST', '/v1/accounts', { body: { email, password: 'a first password', invite }, headers })
  const setPassword = (token: string, password: string = NEXT): Promise<Answer> =>
    bench.call('POST', '/v1/passwords', { body: { token, new_password: password } })
  const signIn = (email: string, password: string): Promise<Answer> =>
    bench.call('POST', '/v1/sessions', { body: { email, password } })

  test('no one signs up without a valid invite; anyone can ask for the mode', async () => {
    assert.deepEqual((await bench.call('GET', '/v1/signup')).body, { mode: 'invite' })
    const missing = await signUp(address())
    assertProblem(missing, 403, 'signup_invite_invalid')
    assert.match(missing.body.detail, /requires a valid sign-up invite\. Ask its operator/)
    const { token } = await admin.invite(24)
    const other = (await admin.create(address(), undefined, 24)).token
    for (const invite of [
      '',
      'su_',
      token.slice(0, -1),
      `${token}0`,
      `${token.slice(0, -1)}!`,
      `pw_${token.slice(3)}`,
      other,
    ]) {
      assertProblem(await signUp(address(), invite), 403, 'signup_invite_invalid')
    }
    const wrongSecret = token.slice(0, -1) + (token.endsWith('0') ? '1' : '0')
    assertProblem(await signUp(address(), wrongSecret), 403, 'signup_invite_invalid')
    assert.equal((await signUp(address(), token)).status, 201, 'none of these used it up')
  })

  test('an invite creates one account, however many try at once', async () => {
    const { token } = await admin.invite(24)
    const answers = await Promise.all(Array.from({ length: 6 }, () => signUp(address(), token)))
    const statuses = answers.map(({ status }) => status)
    assert.deepEqual(statuses.toSorted(), [201, 403, 403, 403, 403, 403])
    for (const answer of answers) if (answer.status === 403) assertProblem(answer, 403, 'signup_invite_invalid')
  })

  test('of sign-ups that meet in the database one gets the invite, and the others leave nothing', async (t) => {
    const invite = parseOneTimeToken('su', (await admin.invite(24)).token)
    const other = await openStore(bench.database)
    t.after(() => other.close())
    const now = bench.clock.now
    const create = (n: number): Promise<string> => {
      const person = {
        email: `met-${n}@example.com`,
        name: null,
        passwordHash: 'x',
        plan: 'free',
        status: 'active',
      } as const
      const account = { id: newId(now), ...person, createdAt: now }
      return (n % 2 === 0 ? store : other).accounts.create(account, { invite, entries: [] })
    }
    const results = await Promise.all([0, 1, 2, 3, 4, 5].map(create))
    assert.deepEqual(results.toSorted(), ['created', ...Array<string>(5).fill('invite_invalid')])
    assert.equal((await admin.list({ text: 'met-', limit: 10 })).accounts.length, 1)
  })

  test('a sign-up that fails keeps its invite, and an expired one is refused', async () => {
    const { token } = await admin.invite(24)
    const email = address()
    await admin.create(email, undefined, 24)
    assertProblem(await signUp(email, token), 409, 'email_taken')
    const late = await admin.invite(1)
    bench.clock.now += HOUR
    assertProblem(await signUp(address(), late.token), 403, 'signup_invite_invalid')
    assert.equal((await signUp(address(), token)).status, 201)
  })

  test('the operator lists the invites that can be used, and revokes one', async () => {
    const listed = async (): Promise<string[]> => (await admin.invites(100)).map(({ id }) => id)
    const before = await listed()
    const later = await admin.invite(3)
    const sooner = await admin.invite(2)
    const used = await admin.invite(2)
    const { body: person } = await signUp(address(), used.token)
    const expired = await admin.invite(1)
    bench.clock.now += HOUR
    const added = async (): Promise<string[]> => (await listed()).filter((id) => !before.includes(id))
    assert.deepEqual(await added(), [sooner.id, later.id])
    await admin.revokeInvite(later.id)
    assert.deepEqual(await added(), [sooner.id])
    assertProblem(await signUp(address(), later.token), 403, 'signup_invite_invalid')
    for (const { id } of [later, used, expired]) await assert.rejects(admin.revokeInvite(id), { code: 'not_found' })
    const { token: link } = await admin.passwordLink(person.id, 24)
    await assert.rejects(admin.revokeInvite(link.slice(3, 13)), { code: 'not_found' })
    const { events } = await admin.audit(undefined, undefined, 200)
    // Within a millisecond, which is all the time that this clock gives them, events have no order.
    const about = events.filter(({ invite_id: id }) => id === later.id || id === used.id)
    assert.deepEqual(about.map(({ event, account_id: account }) => `${event} ${account}`).sort(), [
      `account_created ${person.id}`,
      'signup_invite_created null',
      'signup_invite_created null',
      'signup_invite_revoked null',
    ])
    const { body: own } = await bench.call('GET', '/v1/audit', { key: person.api_key.key })
    assert.ok(own.events.every(({ account_id: account }: { account_id: string }) => account === person.id))
  })

  test('a sign-up sent twice with one Idempotency-Key reports the account, not a used invite', async () => {
    const { token } = await admin.invite(24)
    const email = address()
    const headers = { 'idempotency-key': `invited-${email}` }
    assert.equal((await signUp(email, token, headers)).status, 201)
    assertProblem(await signUp(email, token, headers), 409, 'idempotency_conflict')
  })

  test('an account that the operator creates opens with its link, once', async () => {
    const email = address()
    const made = await admin.create(email, 'Guest', 24)
    assert.match(made.token, /^pw_[0-9A-Za-z]{42}$/)
    assertProblem(await signIn(email, ''), 401, 'invalid_credentials')
    assertProblem(await setPassword(made.token, 'password1'), 400, 'invalid_request')
    const set = await setPassword(made.token)
    assert.equal(set.status, 200)
    assert.equal(set.body.email, email)
    assert.equal((await signIn(email, NEXT)).status, 201)
    assertProblem(await setPassword(made.token), 403, 'password_link_invalid')
    const rows = await bench.query('select * from links')
    assert.ok(!JSON.stringify(rows).includes(made.token.slice(13)), 'only a hash is stored')
  })

  test('setting a password ends every session and voids the old password; keys keep working', async () => {
    const { token: invite } = await admin.invite(24)
    const { body: person } = await signUp(address(), invite)
    const cookie = cookieOf(await signIn(person.email, 'a first password'))
    const { token } = await admin.passwordLink(person.id, 24)
    assert.equal((await bench.call('GET', '/v1/keys', { cookie })).status, 200, 'a link alone changes nothing')
    assert.equal((await setPassword(token)).status, 200)
    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
    assertProblem(await signIn(person.email, 'a first password'), 401, 'invalid_credentials')
    assert.equal((await bench.call('GET', '/v1/keys', { key: person.api_key.key })).status, 200)
  })

  test('a link ends with a newer one, a password change, the closing of its account, and at its expiry', async () => {
    const { token: invite } = await admin.invite(24)
    const { body: person } = await signUp(address(), invite)
    const link = async (): Promise<string> => (await admin.passwordLink(person.id, 24)).token
    const replaced = await link()
    const expired = await link()
    bench.clock.now += 24 * HOUR
    for (const token of [replaced, expired]) assertProblem(await setPassword(token), 403, 'password_link_invalid')
    const changed = await link()
    const body = { current_password: 'a first password', new_password: NEXT }
    assert.equal((await bench.call('PUT', `/v1/accounts/${person.id}/password`, { body })).status, 204)
    assertProblem(await setPassword(changed), 403, 'password_link_invalid')
    const closed = await link()
    await admin.close(person.id)
    assertProblem(await setPassword(closed), 403, 'password_link_invalid')
    await assert.rejects(link(), { code: 'not_found' })
    await assert.rejects(admin.close(person.id), { code: 'not_found', message: /already closed/ })
    await bench.api.service.cleanUp()
    const left = await bench.query(`select * from links where account_id = '${person.id}'`)
    assert.deepEqual(left, [])
  })

  test('of many uses at once exactly one sets the password', async () => {
    const { token } = await admin.create(address(), undefined, 24)
    const answers = await Promise.all(Array.from({ length: 5 }, (_, n) => setPassword(token, `${NEXT} ${n}`)))
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 403, 403, 403, 403])
  })

  test('a suspended account keeps its link until it is resumed', async () => {
    const { id, token } = await admin.create(address(), undefined, 24)
    await admin.setSuspended(id, true)
    assertProblem(await setPassword(token), 403, 'account_suspended')
    await admin.setSuspended(id, false)
    assert.equal((await setPassword(token)).status, 200)
  })

  test('an account closed while its keys are in use is refused from the next request', async () => {
    const { token: invite } = await admin.invite(24)
    const { body: person } = await signUp(address(), invite)
    const { key } = person.api_key
    const exchange = (): Promise<Answer> => bench.call('POST', '/v1/tokens', { key })
    assert.equal((await exchange()).status, 200)
    const [, ...answers] = await Promise.all([admin.close(person.id), exchange(), exchange(), exchange()])
    for (const { status } of answers) assert.ok(status === 200 || status === 401)
    assertProblem(await exchange(), 401, 'auth_key_invalid')
    assertProblem(await bench.call('POST', '/v1/keys', { key }), 401, 'auth_key_invalid')
  })

  test('guesses slow their address like wrong passwords, and stop no one with a valid link or invite', async (t) => {
    const rates = { failures: { limit: 3, seconds: 60 }, slowedAttempts: { limit: 20, seconds: 1 } }
    const limited = await startBench(engine, { signup: 'invite', settings: { rates } })
    t.after(() => limited.close())
    const links = await openStore(limited.database)
    t.after(() => links.close())
    const operator = new Admin(links, () => limited.clock.now)
    const set = (token: string): Promise<Answer> =>
      limited.call('POST', '/v1/passwords', { body: { token, new_password: NEXT } })
    const guess = (): Promise<Answer> => set(`pw_${'0'.repeat(42)}`)
    for (let tries = 0; tries < 3; tries++) assertProblem(await guess(), 403, 'password_link_invalid')
    const start = performance.now()
    for (const answer of await Promise.all([guess(), guess(), guess()])) {
      assertProblem(answer, 403, 'password_link_invalid')
    }
    assert.ok(performance.now() - start >= 2 * 50 - 10)
    assert.equal((await set((await operator.create(address(), undefined, 24)).token)).status, 200)
    const body = { email: address(), password: 'a first password', invite: (await operator.invite(24)).token }
    assert.equal((await limited.call('POST', '/v1/accounts', { body })).status, 201)
  })

  test('where sign-up is closed, the answer says whom to ask, even with an invite', async (t) => {
    const closed = await startBench(engine, { signup: 'closed' })
    t.after(() => closed.close())
    const body = { email: address(), password: 'a first password', invite: (await admin.invite(1)).token }
    const answer = await closed.call('POST', '/v1/accounts', { body })
    assertProblem(answer, 403, 'signup_closed')
    assert.match(answer.body.detail, /Ask its operator to create an account/)
    assert.deepEqual((await closed.call('GET', '/v1/signup')).body, { mode: 'closed' })
  })

  test('the operator lists accounts page by page and finds them by address, name or id', async () => {
    const made = []
    for (const name of ['Zoë', 'Percent 100%', 'Under_score']) made.push(await admin.create(address(), name, 1))
    const { accounts: all } = await admin.list({ limit: 1000 })
    assert.ok(made.every(({ id }) => all.some((account) => account.id === id)))
    const page = await admin.list({ limit: 4 })
    assert.deepEqual(page, { accounts: all.slice(0, 4), next: all[3]?.id })
    const rest = await admin.list({ after: page.next ?? '', limit: all.length - 4 })
    assert.deepEqual(rest, { accounts: all.slice(4), next: null })
    const names = async (text: string): Promise<(string | null)[]> =>
      (await admin.list({ text, limit: 100 })).accounts.map(({ name }) => name)
    assert.deepEqual(await names(made[0]?.email.toUpperCase() ?? ''), ['Zoë'])
    assert.deepEqual(await names(made[1]?.id ?? ''), ['Percent 100%'])
    assert.deepEqual(await names('00%'), ['Percent 100%'], 'signs of the pattern mean themselves')
    assert.deepEqual(await names('r_s'), ['Under_score'])
    assert.deepEqual(await names('100_'), [])
    assert.deepEqual((await admin.list({ status: 'suspended', limit: 100 })).accounts, [])
  })

  test('the public address is known to the operator', async () => {
    assert.equal(await store.publicUrl.read(), bench.api.url)
  })
})
