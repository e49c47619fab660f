/** What the operator hands out, in a browser: set-password links, sign-up invites; and the activity that they leave. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { Admin, type Api, openStore, startApi } from '@static/api'
import { certificates } from '@static/testkit/certificates'
import { PASSWORD } from '@static/testkit/server/accounts'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'
import { launchBrowser } from '../support/browser.ts'
import { findBarriers, visit } from '../support/console.ts'

const workspace = await makeWorkspace()
const database = join(workspace.directory('api'), 'api.sqlite')
let browser: Browser
let api: Api
let store: Awaited<ReturnType<typeof openStore>>
let admin: Admin

async function start(signup: 'invite' | 'closed'): Promise<Api> {
  const { certificate } = await certificates()
  return startApi({
    database,
    masterKey: Buffer.alloc(32, 1),
    host: 'localhost',
    port: 0,
    certificate,
    signup,
    console: join(import.meta.dirname, '../../packages/console/dist'),
    settings: QUICK,
    log: { write: () => {}, pretty: false, level: 'silent' },
  })
}

before(async () => {
  ;[browser, api] = await Promise.all([launchBrowser(), start('invite')])
  store = await openStore(database)
  admin = new Admin(store)
})
after(async () => {
  await browser.close()
  await store.close()
  await api.close()
  workspace[Symbol.dispose]()
})

const heading = (page: Page, name: string): ReturnType<Page['getByRole']> =>
  page.getByRole('heading', { name, exact: true })
const email = (): string => `${randomBytes(6).toString('hex')}@example.com`

async function check(page: Page): Promise<void> {
  assert.deepEqual(await findBarriers(page), [])
  assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
}

for (const [name, options, run] of [
  ['light', {}, {}],
  ['dark, on a phone', { dark: true, width: 360 }, WHOLE_ONLY],
] as const) {
  test(`a person sets the first password with a link, once, and sees what happened: ${name}`, run, async () => {
    const { token } = await admin.create(email(), undefined, 24)
    await using visitor = await visit(browser, api.url, options)
    const { page } = visitor
    await page.goto(`${api.url}/console#/set-password/${token}`)
    await heading(page, 'Set your password').waitFor()
    assert.ok(!page.url().includes(token), 'the token leaves the address bar')
    await check(page)
    await page.getByLabel('New password', { exact: true }).fill(PASSWORD)
    await page.getByLabel('New password again').fill('something else')
    await page.getByRole('button', { name: 'Set password' }).click()
    await page.getByText('The two passwords do not match.').waitFor()
    await page.getByLabel('New password again').fill(PASSWORD)
    await page.getByRole('button', { name: 'Set password' }).click()
    await heading(page, 'Keys').waitFor()

    await page.getByRole('link', { name: 'Activity' }).click()
    const row = (text: string): ReturnType<Page['getByRole']> => page.getByRole('row').filter({ hasText: text })
    await row('Password set with a link').waitFor()
    assert.match(await row('Set-password link created').innerText(), /operator/)
    assert.match(await row('Account created').innerText(), /operator.*(just now|minutes? ago)/s)
    assert.match(await row('Signed in').innerText(), /you/)
    await check(page)

    const again = await visitor.tab()
    await again.goto(`${api.url}/console#/set-password/${token}`)
    await again.getByLabel('New password', { exact: true }).fill('another password')
    await again.getByLabel('New password again').fill('another password')
    await again.getByRole('button', { name: 'Set password' }).click()
    await again.getByText('The set-password link is unknown, mistyped, expired or already used.').waitFor()
    await again.reload()
    await again.getByText('This page needs the whole link.').waitFor()
  })
}

test('activity has more than one page', WHOLE_ONLY, async () => {
  const { id, token, email: address } = await admin.create(email(), undefined, 24)
  for (let n = 0; n < 60; n++) await admin.setPlan(id, n % 2 === 0 ? 'team' : 'dev')
  await using visitor = await visit(browser, api.url)
  const { page } = visitor
  await page.goto(`${api.url}/console#/set-password/${token}`)
  await page.getByLabel('New password', { exact: true }).fill(PASSWORD)
  await page.getByLabel('New password again').fill(PASSWORD)
  await page.getByRole('button', { name: 'Set password' }).click()
  await page.getByRole('link', { name: 'Activity' }).click()
  await page.getByRole('button', { name: 'Show older events' }).click()
  await page.getByRole('row').filter({ hasText: 'Account created' }).waitFor()
  // A heading, 60 plans, the account, its link, its password, and the sign-in.
  assert.equal(await page.getByRole('row').count(), 65, address)
  assert.equal(await page.getByRole('button', { name: 'Show older events' }).count(), 0)
})

test('a sign-up link brings its invite; a wrong one is one sentence', async () => {
  const { token } = await admin.invite(24)
  await using visitor = await visit(browser, api.url)
  const { page } = visitor
  await page.getByRole('link', { name: 'Create an account' }).click()
  await heading(page, 'Create an account').waitFor()
  await page.getByLabel('E-mail address').fill(email())
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByLabel('Invite').fill('su_wrong')
  await page.getByRole('button', { name: 'Create an account' }).click()
  await page.getByText('The sign-up invite is unknown, mistyped, expired or already used.').waitFor()
  await check(page)

  const other = await visitor.tab()
  await other.goto(`${api.url}/console#/sign-up/${token}`)
  assert.equal(await other.getByLabel('Invite').inputValue(), token)
  assert.ok(!other.url().includes(token))
  await other.getByLabel('E-mail address').fill(email())
  await other.getByLabel('Password').fill(PASSWORD)
  await other.getByRole('button', { name: 'Create an account' }).click()
  await other.getByRole('dialog', { name: 'Your key “default”' }).waitFor()
})

test('where sign-up is closed, the page says whom to ask and offers no form', WHOLE_ONLY, async () => {
  const closed = await start('closed')
  try {
    await using visitor = await visit(browser, closed.url)
    const { page } = visitor
    await heading(page, 'Sign in').waitFor()
    await page.getByText('New here?').waitFor({ state: 'detached' })
    await page.goto(`${closed.url}/console#/sign-up`)
    await page.getByText('Ask its operator to create an account for you.').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Create an account' }).count(), 0)
    await check(page)
  } finally {
    await closed.close()
  }
})
