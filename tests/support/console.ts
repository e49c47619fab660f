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

/** Opens the console; closing it fails if there were violations. */
export async function visit(
  browser: Browser,
  url: string,
  options: { readonly width?: number; readonly dark?: boolean; readonly userAgent?: string } = {},
): Promise<Visitor> {
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
  const wrongs: string[] = []
  await context.exposeFunction('tellWrong', (text: string) => wrongs.push(text))
  const content =
    "addEventListener('securitypolicyviolation', (event) => tellWrong(`policy: ${event.violatedDirective} ${event.blockedURI}`))"
  await context.addInitScript({ content })
  context.on('request', (request) => {
    if (new URL(request.url()).origin !== url) wrongs.push(`request: ${request.url()}`)
  })
  context.on('weberror', (error) => wrongs.push(`error: ${error.error().message}`))
  context.on('dialog', (dialog) => {
    wrongs.push(`pop-up: ${dialog.message()}`)
    void dialog.dismiss()
  })
  const tab = async (): Promise<Page> => {
    const page = await context.newPage()
    await page.goto(`${url}/console`)
    return page
  }
  return {
    context,
    page: await tab(),
    tab,
    wrongs,
    async [Symbol.asyncDispose]() {
      await context.close()
      assert.deepEqual(wrongs, [])
    },
  }
}

/** Accessibility problems that axe finds in the current page: rule and location. */
export async function findBarriers(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe.source)
  const found: any = await page.evaluate(() => (globalThis as any).axe.run())
  return found.violations.flatMap(({ id, nodes }: any) => nodes.map(({ html }: any) => `${id}: ${html}`))
}
