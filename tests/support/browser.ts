/** A real browser. */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

/** Debian's Chromium. The shell draws no windows, so it needs half of the CPU time; the engine is the same. */
const PROGRAMS = ['/usr/lib/chromium/chromium-headless-shell', '/usr/bin/chromium']

export function launchBrowser(): Promise<Browser> {
  const executablePath = PROGRAMS.find((path) => existsSync(path))
  if (executablePath === undefined) throw new Error('Chromium is not installed: start the tests with `npm test`.')
  return chromium.launch({ executablePath, args: ['--no-sandbox'] })
}
