/** The console in a real browser, monitored for forbidden behaviour. */
import assert from 'node:assert/strict'
import axe from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'

/** One person's browser on the console of one server. */
export interface Visitor extends AsyncDisposable {
  readonly context: BrowserContext
  readonly page: Page
  /** Another tab of the same person. */
  tab(): Promise<Page>
  /** Violations: requests to other origins, broken policies, page errors, pop-ups. */
  readonly wrongs: readonly string[]
}

interface Options {
  readonly width?: number
  readonly dark?: boolean
  readonly userAgent?: string
}

/** A browser's profile with one page, and what its present visitor has done wrong. */
interface Seat {
  readonly context: BrowserContext
  readonly page: Page
  wrongs: string[]
}

/** Seats that visitors have left, by what they are for: a new one costs two processes that load everything anew. */
const free = new WeakMap<Browser, Map<string, Seat[]>>()

/** Opens the console; closing it fails if there were violations. */
export async function visit(browser: Browser, url: string, options: Options = {}): Promise<Visitor> {
  const seats = free.get(browser) ?? new Map<string, Seat[]>()
  free.set(browser, seats)
  const kind = JSON.stringify([url, options])
  const seat = seats.get(kind)?.pop() ?? (await makeSeat(browser, url, options))
  const { context, page } = seat
  const wrongs: string[] = []
  seat.wrongs = wrongs
  await page.goto(`${url}/console`)
  return {
    context,
    page,
    async tab() {
      const other = await context.newPage()
      await other.goto(`${url}/console`)
      return other
    },
    wrongs,
    async [Symbol.asyncDispose]() {
      // As new for the next visitor: no session, nothing stored, one page that does nothing.
      await context.clearCookies()
      await Promise.all(
        context
          .pages()
          .filter((each) => each !== page)
          .map((each) => each.close()),
      )
      await page.evaluate('localStorage.clear(), sessionStorage.clear()')
      // Of the same origin, so that its process stays.
      await page.goto(`${url}/health`)
      assert.deepEqual(wrongs, [])
      seats.set(kind, [...(seats.get(kind) ?? []), seat])
    },
  }
}

async function makeSeat(browser: Browser, url: string, options: Options): Promise<Seat> {
  const context = await browser.newContext({
    // No browser trusts the authority of the tests.
    ignoreHTTPSErrors: true,
    viewport: { width: options.width ?? 1100, height: 800 },
    colorScheme: options.dark ? 'dark' : 'light',
    locale: 'en-GB',
    ...(options.userAgent === undefined ? {} : { userAgent: options.userAgent }),
    timezoneId: 'UTC',
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  context.setDefaultTimeout(60_000)
  const seat: Seat = { context, page: await context.newPage(), wrongs: [] }
  await context.exposeFunction('tellWrong', (text: string) => seat.wrongs.push(text))
  const content =
    "addEventListener('securitypolicyviolation', (event) => tellWrong(`policy: ${event.violatedDirective} ${event.blockedURI}`))"
  await context.addInitScript({ content })
  context.on('request', (request) => {
    if (new URL(request.url()).origin !== url) seat.wrongs.push(`request: ${request.url()}`)
  })
  context.on('weberror', (error) => seat.wrongs.push(`error: ${error.error().message}`))
  context.on('dialog', (dialog) => {
    seat.wrongs.push(`pop-up: ${dialog.message()}`)
    void dialog.dismiss()
  })
  return seat
}

/** Accessibility problems that axe finds in the current page: rule and location. */
export async function findBarriers(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const found: any = await page.evaluate(() => (globalThis as any).axe.run())
  return found.violations.flatMap(({ id, nodes }: any) => nodes.map(({ html }: any) => `${id}: ${html}`))
}
