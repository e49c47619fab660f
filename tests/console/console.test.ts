import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import type { Lease } from '@static/protocol'
import { StaticClient } from '@static/sdk'
import { quietPort } from '@static/testkit/ports'
import { type Client, makeClient } from '@static/testkit/server/client'
import { launchBrowser } from '../support/browser.ts'
import { findBarriers, visit, type Visitor } from '../support/console.ts'
import { PASSWORD, signUp } from '@static/testkit/server/accounts'
import { type Server, startServer } from '@static/testkit/server'
import { HIGH_RATES, QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'

const workspace = await makeWorkspace()
const dataDir = workspace.directory('up')
/** Password checks are few; each account has its own. */
const settings = { ...QUICK, rates: { ...HIGH_RATES, passwordsPerAddress: { limit: 5, seconds: 600 } } }
let browser: Browser
let server: Server
let client: Client
let ca: string

// It is started again, for the same pages.
const port = await quietPort()
const start = (): Promise<Server> => startServer({ workspace, dataDir, command: 'up', settings, internal: true, port })

before(async () => {
  ;[browser, server] = await Promise.all([launchBrowser(), start()])
  ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  client = makeClient(server.url, ca)
})
after(async () => {
  client.close()
  await browser.close()
  await server[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

const button = (page: Page, name: string | RegExp): ReturnType<Page['getByRole']> => page.getByRole('button', { name })
const heading = (page: Page, name: string): ReturnType<Page['getByRole']> =>
  page.getByRole('heading', { name, exact: true })
/** A dialog that was closed has no role anymore, but the page only hears of it a moment later, and then removes it. */
const dialogIsGone = (page: Page): Promise<void> => page.locator('dialog').waitFor({ state: 'detached' })

async function signIn(page: Page, email: string, password: string = PASSWORD): Promise<void> {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await button(page, 'Sign in').click()
}

/** Somebody with an account who has signed in, and the key of the sign-up. */
async function enter(options: Parameters<typeof visit>[2] = {}): Promise<Visitor & { email: string; key: string }> {
  const { email, api_key: first } = await signUp(client)
  const visitor = await visit(browser, server.url, options)
  await signIn(visitor.page, email)
  await heading(visitor.page, 'Keys').waitFor()
  return { ...visitor, email, key: first.key }
}

const copied = (page: Page): Promise<string> => page.evaluate(() => (globalThis as any).navigator.clipboard.readText())

/** Opens the account view. When its sessions arrive, everything below them moves, and a click would miss its button. */
async function openAccount(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Account' }).click()
  await page.getByRole('row', { name: /this one/ }).waitFor()
}

/** Creates a key and gives the text of its dialog. */
async function createKey(page: Page, name: string): Promise<string> {
  await page.getByLabel('Name').fill(name)
  await button(page, 'Create key').click()
  const shown = await page.getByRole('dialog').innerText()
  await button(page, 'I have saved it').click()
  await dialogIsGone(page)
  return shown
}

test('a person signs up, copies the first key, which works and is never shown again', async () => {
  await using visitor = await visit(browser, server.url)
  const { page } = visitor
  await page.getByRole('link', { name: 'Create an account' }).click()
  await heading(page, 'Create an account').waitFor()
  const { email } = await signUp(client)
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill('password1')
  await button(page, 'Create an account').click()
  await page.getByText('The password is too easy to guess: choose another.').waitFor()
  await page.getByLabel('Password').fill(PASSWORD)
  await button(page, 'Create an account').click()
  const taken = 'An account with this e-mail address already exists. Sign in, or use another address.'
  await page.getByText(taken).waitFor()
  await page.getByLabel('E-mail address').fill('new@example.com')
  await button(page, 'Create an account').click()
  // What is shown once does not go by accident.
  await page.getByRole('dialog', { name: 'Your key “default”' }).waitFor()
  await page.keyboard.press('Escape')
  await button(page, 'Copy key').click()
  await page.getByText('Copied.').waitFor()
  const key = await copied(page)
  await client.json(200, { path: '/v1/keys', key })
  // How to use it, without the key in a command line.
  await button(page, 'Copy commands').click()
  const lines = (await copied(page)).split('\n')
  assert.deepEqual(lines, [
    `static login --with-key --api-url ${server.url}`,
    'static channel create acme/support/routing',
    'static channel listen acme/support/routing',
  ])
  await button(page, 'I have saved it').click()
  await dialogIsGone(page)
  assert.ok(!(await page.content()).includes(key))
  await page.reload()
  await page.getByRole('row', { name: /default/ }).waitFor()
  assert.ok(!(await page.content()).includes(key))
})

test('a key is created, used, and revoked only after a confirmation', async () => {
  await using visitor = await enter()
  const { page } = visitor
  const shown = await createKey(page, 'billing')
  const key = /sk_live_\w+/.exec(shown)?.[0]
  const row = page.getByRole('row', { name: /billing/ })
  assert.match(await row.innerText(), /never/)
  await client.json(200, { path: '/v1/keys', key })
  await page.reload()
  assert.match(await row.innerText(), /just now.*just now/s)

  await row.getByRole('button').click()
  await button(page, 'Cancel').click()
  await dialogIsGone(page)
  await client.json(200, { path: '/v1/keys', key })
  await row.getByRole('button').click()
  await button(page, 'Revoke key').click()
  await page.getByText('Key “billing” revoked.').waitFor()
  await row.waitFor({ state: 'detached' })
  await client.json(401, { path: '/v1/keys', key })

  await page.getByLabel('Mode').selectOption('Test')
  assert.match(await createKey(page, 'trial'), /sk_test_/)
  assert.match(await page.getByRole('row', { name: /trial/ }).innerText(), /\btest\b/)
})

test('a name is always shown as text, whatever it contains', async () => {
  await using visitor = await enter()
  const { page } = visitor
  const names = [
    '<img src=x onerror=alert(1)>',
    '"><script>alert(1)</script>',
    '<svg/onload=alert(1)>',
    "'--><iframe src=javascript:alert(2)>",
    'javascript:alert(1)',
    '{{constructor.constructor("alert(1)")()}}',
  ]
  for (const name of names) {
    assert.ok((await createKey(page, name)).includes(`“${name}”`))
    const row = page.getByRole('row').filter({ hasText: name })
    await row.getByRole('button').click()
    assert.equal(await page.getByRole('dialog').getByRole('heading').innerText(), `Revoke “${name}”?`)
    await button(page, 'Cancel').click()
  }
  assert.equal(await page.locator('main img, main iframe, main script, main svg').count(), 0)
})

test('usage shows this month against the limit, and each day in a table', WHOLE_ONLY, async () => {
  await using visitor = await enter()
  const { page, key } = visitor
  const me = await client.json<{ id: string }>(200, { path: '/v1/accounts/me', key })
  const relay = makeClient(server.internalUrl ?? '', ca)
  const credential = readFileSync(join(dataDir, 'relay.credential'), 'utf8').trim()
  const post = <Answer>(path: string, body: unknown): Promise<Answer> =>
    relay.json<Answer>(200, { method: 'POST', path: `/internal/v1/quota/leases${path}`, key: credential, body })
  const lease = await post<Lease>('', { account_id: me.id, mode: 'live' })
  await post(`/${lease.id}/settle`, { spent: 321, final: true })
  relay.close()
  await client.json(200, { method: 'POST', path: '/v1/tokens', key })

  await page.getByRole('link', { name: 'Usage' }).click()
  await page.getByText('321 of 100,000').waitFor()
  await page.getByText('99,679').waitFor()
  assert.equal(await page.getByRole('progressbar').getAttribute('value'), '321')
  assert.match(await page.getByRole('figure').innerText(), /^321 in the last 30 days, most on \d+ \w+ \(321\)\./)
  assert.equal(await page.locator('svg rect').count(), 30)
  await page.getByText('Show the numbers').click()
  const rows = page.getByRole('figure').locator('..').getByRole('row')
  assert.equal(await rows.count(), 31)
  assert.equal(await rows.filter({ hasText: /321$/ }).count(), 1)
  assert.match(await page.locator('dl').innerText(), /Token exchanges\s+1\b/)
  assert.match(await page.getByRole('row', { name: /^default/ }).innerText(), /^default\s+0\s+1\s+just now$/)
})

test('a wrong password, and too many of them, are reported in one sentence', WHOLE_ONLY, async () => {
  const { email } = await signUp(client)
  await using visitor = await visit(browser, server.url)
  const { page } = visitor
  for (let tries = 0; tries < 5; tries++) {
    await signIn(page, email, `wrong ${tries}`)
    await page.getByText('The e-mail address or the password is wrong.').waitFor()
  }
  await signIn(page, email)
  await page.getByText('Too many attempts. Wait 10 minutes, then try again.').waitFor()
})

test('a new password keeps this session and ends the others, which say so', WHOLE_ONLY, async () => {
  await using visitor = await enter()
  const { page, email } = visitor
  await using elsewhere = await visit(browser, server.url)
  await signIn(elsewhere.page, email)
  await heading(elsewhere.page, 'Keys').waitFor()

  await openAccount(page)
  await page.getByText(email, { exact: true }).waitFor()
  await page.getByLabel('Current password').fill('not this one')
  await page.getByLabel('New password').fill('another long password')
  await button(page, 'Change password').click()
  assert.equal(await page.getByRole('alert').innerText(), 'The password is wrong.')
  await page.getByLabel('Current password').fill(PASSWORD)
  await button(page, 'Change password').click()
  await page.getByText('Password changed. All other sessions have ended.').waitFor()
  await page.getByRole('link', { name: 'Usage' }).click()
  await page.getByText('0 of 100,000').waitFor()

  await elsewhere.page.getByRole('link', { name: 'Usage' }).click()
  await elsewhere.page.getByText('Your session has ended. Sign in again.').waitFor()
  await heading(elsewhere.page, 'Sign in').waitFor()
})

test('a person sees where they are signed in, and signs out there', WHOLE_ONLY, async () => {
  await using visitor = await enter()
  const { page, email } = visitor
  await using phone = await visit(browser, server.url, {
    userAgent: 'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/605.1',
  })
  await using library = await visit(browser, server.url)
  for (const other of [phone.page, library.page]) {
    await signIn(other, email)
    await heading(other, 'Keys').waitFor()
  }
  await page.getByRole('link', { name: 'Account' }).click()
  const row = (name: RegExp): ReturnType<Page['getByRole']> => page.getByRole('row', { name })
  assert.match(await row(/this one/).innerText(), /^Chrome on Linux this one\s+just now\s+now/)
  await row(/Safari on iOS/)
    .getByRole('button')
    .click()
  await page.getByText('Session ended.').waitFor()
  await row(/Safari on iOS/).waitFor({ state: 'detached' })
  await phone.page.getByRole('link', { name: 'Usage' }).click()
  await phone.page.getByText('Your session has ended. Sign in again.').waitFor()
  await button(page, 'Sign out all others').click()
  await page.getByText('Ended 1 other session.').waitFor()
  await library.page.getByRole('link', { name: 'Usage' }).click()
  await library.page.getByText('Your session has ended. Sign in again.').waitFor()
  await button(page, 'Sign out all others').waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'Activity' }).click()
  await page.getByRole('row', { name: /Session ended 2 times you/ }).waitFor()
})

test(
  'a person sees the channels and agents of their own account, as they are now, and no one else does',
  WHOLE_ONLY,
  async () => {
    await using visitor = await enter()
    const { page, key } = visitor
    const endpoint = `quic://localhost:${server.relay.quicPort}`
    const account = { endpoint, apiUrl: server.url, apiKey: key, ca }
    const connect = (identity: string): Promise<StaticClient> =>
      StaticClient.connect({ ...account, identity, dataDir: workspace.directory(identity) })
    await page.getByRole('link', { name: 'Channels' }).click()
    await page.getByText('No channels yet.').waitFor()
    await button(page, 'Copy commands').waitFor()

    await using alice = await connect('alice')
    const bob = await connect('bob')
    const channel = await alice.createChannel('acme/support/routing')
    await bob.joinChannel(channel.name, await channel.addMember(await bob.generateKeyPackage()))
    await bob.close()
    for (let n = 0; n < 3; n++) await channel.send('hello')
    const row = page.getByRole('row', { name: /^acme\/support\/routing alice 2, 1 behind .* kB just now$/ })
    await row.waitFor()
    assert.deepEqual(await findBarriers(page), [])
    await page.getByText('2, 1 connected').click()
    await page.getByRole('row', { name: /^alice [0-9a-f]{12}… connected$/ }).waitFor()
    await page.getByRole('row', { name: /^bob [0-9a-f]{12}… just now$/ }).waitFor()
    assert.deepEqual(await findBarriers(page), [])
    assert.equal(await page.getByRole('searchbox').count(), 0, 'for one channel')

    // Its page has the same address after the page was loaded anew.
    await page.getByRole('link', { name: channel.name }).click()
    await heading(page, channel.name).waitFor()
    await page.reload()
    await heading(page, channel.name).waitFor()
    assert.equal(await page.title(), `${channel.name} · Static console`)
    await page.getByRole('row', { name: /^bob \d+ entries just now$/ }).waitFor()
    await page.getByRole('row', { name: /^alice owner nothing connected$/ }).waitFor()
    assert.match(await page.locator('dl').innerText(), /Owner\s+alice\s+Members\s+2\s+Waiting\s+.* kB\s+Last entry\s/)
    assert.deepEqual(await findBarriers(page), [])

    // After its name is typed once more, the relay deletes it, whichever agent owns it.
    await button(page, 'Delete…').click()
    await page.getByLabel('Type its name to confirm').fill('acme/support')
    await button(page, 'Delete channel').click()
    await page.getByText('That is not the name of the channel, acme/support/routing.').waitFor()
    assert.deepEqual(await findBarriers(page), [])
    await page.getByLabel('Type its name to confirm').fill(channel.name)
    await button(page, 'Delete channel').click()
    await page.getByText('The relay deletes acme/support/routing within seconds.').waitFor()
    await page.getByText('This account has no such channel.').waitFor()
    await assert.rejects(channel.send('too late'), { code: 'not_found' })
    await page.getByRole('link', { name: 'Activity' }).click()
    await page.getByRole('row', { name: /^Channel deleted system acme\/support\/routing/ }).waitFor()

    await using other = await enter({ dark: true, width: 360 })
    await other.page.getByRole('link', { name: 'Channels' }).click()
    await other.page.getByText('No channels yet.').waitFor()
    assert.deepEqual(await findBarriers(other.page), [])
    assert.ok(await other.page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
  },
)

test('a list of many channels is searched, and an address that leads nowhere says so', WHOLE_ONLY, async () => {
  await using visitor = await enter({ width: 375 })
  const { page, key } = visitor
  const endpoint = `quic://localhost:${server.relay.quicPort}`
  const dataDirectory = workspace.directory('many')
  const account = { endpoint, apiUrl: server.url, apiKey: key, ca, identity: 'ann', dataDir: dataDirectory }
  await using ann = await StaticClient.connect(account)
  for (let n = 0; n < 7; n++) await ann.createChannel(`acme/${n % 2 === 0 ? 'billing' : 'support'}/desk-${n}`)
  await page.getByRole('link', { name: 'Channels' }).click()
  await page.getByRole('row').nth(6).waitFor()
  await page.getByRole('searchbox').fill('Support ann')
  await page
    .getByRole('row', { name: /billing/ })
    .first()
    .waitFor({ state: 'detached' })
  assert.equal(await page.getByRole('row', { name: /acme\/support/ }).count(), 3)
  await page.getByRole('searchbox').fill('support nobody')
  await page.getByText('No channel matches “support nobody”.').waitFor()
  assert.deepEqual(await findBarriers(page), [])

  for (const [address, words] of [
    ['#/channels/00', 'This account has no such channel.'],
    ['#/nowhere', 'The console has no page at this address.'],
  ] as const) {
    await page.goto(`${server.url}/console${address}`)
    await page.getByText(words).waitFor()
    assert.deepEqual(await findBarriers(page), [])
    assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
  }
  assert.equal(await page.getByRole('link', { name: 'Keys', exact: true }).getAttribute('aria-current'), null)
})

test('the API reference looks like the console, and has no barrier', WHOLE_ONLY, async () => {
  await using visitor = await visit(browser, server.url, { width: 375, dark: true })
  const { page } = visitor
  await page.getByRole('link', { name: 'API reference' }).click()
  await heading(page, 'API reference').waitFor()
  for (const name of ['API reference', 'Errors']) {
    await page.getByRole('navigation').getByRole('link', { name }).click()
    await heading(page, name).waitFor()
    assert.deepEqual(await findBarriers(page), [])
    assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
  }
  await page.getByRole('link', { name: 'Static', exact: true }).click()
  await heading(page, 'Sign in').waitFor()
})

test('/ leads to the console, which explains how to trust its certificate', WHOLE_ONLY, async () => {
  await using visitor = await visit(browser, server.url, { width: 360 })
  const { page } = visitor
  await page.goto(server.url)
  await heading(page, 'Sign in').waitFor()
  assert.equal(page.url(), `${server.url}/console`)
  await page.getByRole('link', { name: 'Browser warning?' }).click()
  await heading(page, 'Browser warnings').waitFor()
  await page.getByText('View Certificates').waitFor()
  assert.deepEqual(await findBarriers(page), [])
  assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
  await page.getByRole('link', { name: 'Static', exact: true }).click()
  await heading(page, 'Sign in').waitFor()
})

test('signing out in one tab signs out the other', WHOLE_ONLY, async () => {
  await using visitor = await enter()
  const { page, email } = visitor
  const other = await visitor.tab()
  await heading(other, 'Keys').waitFor()
  await button(page, 'Sign out').click()
  await page.getByText('You are signed out.').waitFor()
  const left = await visitor.context.cookies()
  assert.deepEqual(
    left.map(({ name }) => name),
    ['__Host-static_device'],
  )
  await other.getByLabel('Name').fill('too late')
  await button(other, 'Create key').click()
  await other.getByText('Your session has ended. Sign in again.').waitFor()
  await signIn(other, email)
  await heading(other, 'Keys').waitFor()
  assert.equal(await other.getByRole('row', { name: /too late/ }).count(), 0)
})

test('an account is closed with its password, and its keys stop working', WHOLE_ONLY, async () => {
  await using visitor = await enter()
  const { page, email, key } = visitor
  await openAccount(page)
  await button(page, 'Close account…').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Password').fill('not this one')
  await dialog.getByRole('button', { name: 'Close account' }).click()
  assert.equal(await dialog.getByRole('alert').innerText(), 'The password is wrong.')
  await dialog.getByLabel('Password').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Close account' }).click()
  await page.getByText('Your account is closed and its keys are revoked.').waitFor()
  assert.ok(await page.getByLabel('E-mail address').evaluate((field) => field.matches(':focus')))
  await client.json(401, { path: '/v1/keys', key })
  await signIn(page, email)
  await page.getByText('The e-mail address or the password is wrong.').waitFor()
})

test('everything works with the keyboard, and the focus is where users expect it', WHOLE_ONLY, async () => {
  const { email } = await signUp(client)
  await using visitor = await visit(browser, server.url)
  const { page } = visitor
  const focused = (): Promise<string> => page.locator(':focus').evaluate((element) => (element as any).innerText)
  await heading(page, 'Sign in').waitFor()
  await page.keyboard.type(email)
  await page.keyboard.press('Tab')
  await page.keyboard.type(PASSWORD)
  await page.keyboard.press('Enter')
  await heading(page, 'Keys').waitFor()
  assert.equal(await focused(), 'Keys')
  await page.keyboard.press('Tab')
  await page.keyboard.type('by hand')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  assert.equal(await focused(), 'Copy key')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await dialogIsGone(page)
  const revoke = button(page, /Revoke by hand/)
  await revoke.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  assert.equal(await focused(), 'Cancel')
  await page.keyboard.press('Escape')
  await dialogIsGone(page)
  assert.ok(await revoke.evaluate((element) => element.matches(':focus')))
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByText('Key “by hand” revoked.').waitFor()
  assert.equal(await focused(), 'Active keys')
  await page.getByRole('link', { name: 'Usage' }).press('Enter')
  await heading(page, 'Usage').waitFor()
  assert.equal(await focused(), 'Usage')
  assert.equal(await page.title(), 'Usage · Static console')
})

for (const [name, options, run] of [
  ['light', {}, {}],
  ['dark, on a phone', { dark: true, width: 360 }, WHOLE_ONLY],
] as const) {
  test(`axe finds no barrier, and nothing is wider than the screen: ${name}`, run, async () => {
    await using visitor = await visit(browser, server.url, options)
    const { page } = visitor
    const check = async (): Promise<void> => {
      assert.deepEqual(await findBarriers(page), [])
      assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
    }
    const { email } = await signUp(client)
    await heading(page, 'Sign in').waitFor()
    await page.getByText('Relay: ready').waitFor()
    await signIn(page, email, 'wrong')
    await page.getByRole('alert').waitFor()
    await check()
    await signIn(page, email)
    await heading(page, 'Keys').waitFor()
    await page.getByLabel('Name').fill('n'.repeat(64))
    await button(page, 'Create key').click()
    await page.getByRole('dialog').waitFor()
    await check()
    await button(page, 'I have saved it').click()
    await page.getByRole('row', { name: /nnn/ }).waitFor()
    await check()
    await button(page, /Revoke nnn/).click()
    await check()
    await button(page, 'Cancel').click()
    await page.getByRole('link', { name: 'Usage' }).click()
    await page.getByText('Show the numbers').click()
    await check()
    await page.getByRole('link', { name: 'Account' }).click()
    await heading(page, 'About').waitFor()
    await check()
  })
}

test('while the API is down the page says so, and continues when it is back', WHOLE_ONLY, async () => {
  await using visitor = await enter()
  const { page } = visitor
  await server.end('SIGTERM')
  await page.getByRole('link', { name: 'Usage' }).click()
  const words = page.getByText('The API cannot be reached. Check that it is running, then try again.')
  await words.first().waitFor()
  // The page must not say at its foot that the API is ready.
  await page.getByText('API: unreachable').waitFor()
  assert.equal(await page.getByText('API: ready').count(), 0)
  await button(page, 'Try again').first().click()
  await words.first().waitFor()
  // The page also looks by itself every 30 seconds: not before the button is clicked.
  const clicked = Promise.withResolvers<void>()
  await page.route('**/health/ready', (route) => clicked.promise.then(() => route.continue()))
  server = await start()
  await button(page, 'Try again').first().click()
  await page.getByText('0 of 100,000').waitFor()
  clicked.resolve()
  // One success is enough for the whole page.
  await words.first().waitFor({ state: 'detached' })
  await page.getByText('API: ready').waitFor()
  await page.unroute('**/health/ready')
})
