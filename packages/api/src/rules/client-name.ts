/** The browser and the system named in a `User-Agent` header, so that users recognize their sessions. */

/** The first match counts, because most browsers also name the ones they descend from. */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:Headless)?(?:Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
]
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, 'Android'],
  [/\b(?:iPhone|iPad)\b/, 'iOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
]

/** For example "Firefox on Linux"; undefined if neither is known. Never a part of the header itself. */
export function clientName(userAgent: string | undefined): string | undefined {
  if (userAgent === undefined) return undefined
  const find = (table: typeof BROWSERS): string | undefined => table.find(([form]) => form.test(userAgent))?.[1]
  const [browser, system] = [find(BROWSERS), find(SYSTEMS)]
  return browser === undefined || system === undefined ? (browser ?? system) : `${browser} on ${system}`
}
