/**
 * Takes the screenshots of docs/10-console.md with a real browser, server and agents: `node tests/console/screenshots.ts`.
 * With a directory as argument it takes every view in light, dark and on a phone, to look at.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { StaticClient } from '@static/sdk'
import type { Usage } from '@static/protocol'
import { startServer } from '@static/testkit/server'
import { makeClient } from '@static/testkit/server/client'
import { PASSWORD } from '@static/testkit/server/accounts'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { launchBrowser } from '../support/browser.ts'
import { visit } from '../support/console.ts'

const LOOKS = [
  ['light', { width: 1280 }],
  ['dark', { width: 1280, dark: true }],
  ['phone', { width: 375 }],
  ['phone-dark', { width: 375, dark: true }],
] as const
const VIEWS = ['Keys', 'Channels', 'Usage', 'Activity', 'Account'] as const
/** What the docs show. */
const SHOWN: Readonly<Record<string, readonly string[]>> = {
  light: ['new-key', 'channels', 'channel', 'account'],
  dark: ['usage'],
  phone: ['channels', 'channel'],
}

const [given] = process.argv.slice(2)
const directory = given ?? join(import.meta.dirname, '../../docs/images')
mkdirSync(directory, { recursive: true })
using workspace = await makeWorkspace()
const dataDir = workspace.directory('up')
await using server = await startServer({ workspace, dataDir, command: 'up', settings: QUICK })
const browser = await launchBrowser()
try {
  const key = await signUp()
  await using agents = await populate(key)
  for (const [look, options] of LOOKS) {
    await using visitor = await visit(browser, server.url, options)
    await tour(visitor.page, look)
  }
  console.log(`${agents.count} agents, screenshots in ${directory}`)
} finally {
  await browser.close()
}

async function shoot(page: Page, look: string, name: string): Promise<void> {
  if (given === undefined && !SHOWN[look]?.includes(name)) return
  await page.screenshot({
    path: join(directory, `console-${name}-${look}.png`),
    fullPage: !['new-key', 'delete', 'reference', 'errors'].includes(name),
  })
}

/** Signs up in the browser; returns the first key. */
async function signUp(): Promise<string> {
  await using visitor = await visit(browser, server.url)
  const { page } = visitor
  await page.getByRole('link', { name: 'Create an account' }).click()
  await page.getByLabel('E-mail address').fill('ada@example.com')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Create an account' }).click()
  return (await page.getByRole('dialog').locator('pre').first().innerText()).trim()
}

/** Eight channels and three agents, one of which is away and behind. */
async function populate(apiKey: string): Promise<AsyncDisposable & { readonly count: number }> {
  const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  const account = { endpoint: `quic://localhost:${server.relay.quicPort}`, apiUrl: server.url, apiKey, ca }
  const connect = (identity: string): Promise<StaticClient> =>
    StaticClient.connect({ ...account, identity, dataDir: workspace.directory(identity) })
  const [router, billing, night] = [await connect('router'), await connect('billing'), await connect('night-shift')]
  const support = await router.createChannel('acme/support/routing')
  for (const other of [billing, night]) {
    await other.joinChannel(support.name, await support.addMember(await other.generateKeyPackage()))
  }
  await night.close()
  const orders = await billing.createChannel('acme/billing/orders')
  for (let n = 0; n < 40; n++) await support.send(`order ${n}`)
  for (let n = 0; n < 4; n++) await orders.send(`invoice ${n}`)
  for (const name of ['sales/leads', 'sales/renewals', 'support/escalations', 'ops/alerts', 'ops/on-call']) {
    await billing.createChannel(`acme/${name}`)
  }
  await router.createChannel('acme/support/night-desk')
  await untilCounted(apiKey, ca)
  return {
    count: 3,
    async [Symbol.asyncDispose]() {
      await Promise.all([router.close(), billing.close()])
    },
  }
}

/** Relays report every half minute what was sent. */
async function untilCounted(key: string, ca: string): Promise<void> {
  using client = makeClient(server.url, ca)
  for (let tries = 0; tries < 60; tries++) {
    const { messages } = await client.json<Usage>(200, { path: '/v1/usage', key })
    if (messages.used > 0) return
    await new Promise((resolve) => setTimeout(resolve, 1000))
  }
}

async function tour(page: Page, look: string): Promise<void> {
  await page.getByText('Relay: ready').waitFor()
  await shoot(page, look, 'sign-in')
  await page.getByRole('link', { name: 'Browser warning?' }).click()
  await shoot(page, look, 'trust')
  await page.getByRole('link', { name: 'Static', exact: true }).click()
  await page.getByLabel('E-mail address').fill('ada@example.com')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByLabel('Name').fill(`laptop, ${look}`)
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByRole('dialog').waitFor()
  await shoot(page, look, 'new-key')
  await page.getByRole('button', { name: 'I have saved it' }).click()
  for (const view of VIEWS) {
    await page.getByRole('link', { name: view }).click()
    await page.getByRole('heading', { name: view, level: 1 }).waitFor()
    await page.getByRole('row').nth(1).waitFor()
    await shoot(page, look, view.toLowerCase())
    if (view === 'Channels') await openChannel(page, look)
  }
  await page.getByRole('link', { name: 'API reference' }).click()
  await page.getByRole('heading', { name: 'API reference' }).waitFor()
  await shoot(page, look, 'reference')
  await page.getByRole('navigation').getByRole('link', { name: 'Errors' }).click()
  await page.getByRole('heading', { name: 'Errors' }).waitFor()
  await shoot(page, look, 'errors')
}

async function openChannel(page: Page, look: string): Promise<void> {
  await page.getByText('3, 2 connected').click()
  await shoot(page, look, 'agents')
  await page.getByRole('link', { name: 'acme/support/routing' }).click()
  await page.getByRole('heading', { name: 'acme/support/routing' }).waitFor()
  await shoot(page, look, 'channel')
  await page.getByRole('button', { name: 'Delete…' }).click()
  await page.getByRole('dialog').waitFor()
  await shoot(page, look, 'delete')
  await page.getByRole('button', { name: 'Cancel' }).click()
}
