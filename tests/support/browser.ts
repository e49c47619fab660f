/** A real browser. */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

/**
 * Debian's Chromium. The shell draws no windows, so it needs less CPU time; the engine is the same. The script in
 * /usr/bin adds settings for graphics cards, which cost more without one.
 */
const PROGRAMS = ['/usr/lib/chromium/chromium-headless-shell', '/usr/lib/chromium/chromium', '/usr/bin/chromium']

export function launchBrowser(): Promise<Browser> {
  const executablePath = process.env['STATIC_TEST_BROWSER'] ?? PROGRAMS.find((path) => existsSync(path))
  if (executablePath === undefined) throw new Error('Chromium is not installed: start the tests with `npm test`.')
  // One process for all pages of a profile: each takes half a second to start.
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--process-per-site'] })
}
