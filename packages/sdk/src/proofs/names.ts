/** Names in proofs, roots and rules: ASCII, so that no look-alike, space or control character reaches a reader. */
import { asciiDomain, isIPv4, isIPv6 } from '../platform/host.ts'

/** The issuer of the tokens of GitHub Actions. */
export const GITHUB_ISSUER = 'https://token.actions.githubusercontent.com'

const PLAIN = /^[\w.:/@+~*#=-]{1,255}$/
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/
const LONGEST_DOMAIN = 253
const TRUST_DOMAIN = /^[a-z0-9._-]{1,255}$/
const SPIFFE_PATH = /^(?:\/[\w.-]+)+$/
const REPOSITORY = /^[\w-]{1,39}\/[\w.-]{1,100}$/
/** A segment of dots means another path to some readers. */
const DOTS = /(?:^|\/)\.{1,2}(?:\/|$)/

/** Whether a claim can be shown and matched as it is. */
export function isPlain(text: unknown): text is string {
  return typeof text === 'string' && PLAIN.test(text)
}

/** What is shown of a text from an unchecked proof. */
export function shownClaim(text: string): string {
  const shown = text.slice(0, 80).replaceAll(/[^\w.:/@+~*#=-]/g, '?')
  return text.length > 80 ? `${shown}…` : shown
}

/** A domain in ASCII and lower case with at least two labels; undefined for anything else. */
export function domainOf(text: string): string | undefined {
  const domain = /[/:?#@%\\\s]/.test(text) ? '' : asciiDomain(text)
  const labels = domain.split('.')
  const fits = domain.length <= LONGEST_DOMAIN && labels.length > 1 && labels.every((label) => LABEL.test(label))
  return fits && !isIPv4(domain) && !isIPv6(domain) ? domain : undefined
}

/** An issuer as in `iss`: `https`, a host, no query and no fragment; undefined for anything else. */
export function issuerOf(text: string): string | undefined {
  if (!isPlain(text) || !URL.canParse(text) || /[?#@*]|\.\./.test(text)) return undefined
  const { protocol, host, pathname, href } = new URL(text)
  const plain = `https://${host}${pathname}`
  // As it is written: an issuer is compared character for character, and only one form of it has these.
  return protocol === 'https:' && href === plain && (text === plain || `${text}/` === plain) ? text : undefined
}

export function isTrustDomain(text: string): boolean {
  return TRUST_DOMAIN.test(text) && !DOTS.test(text)
}

/** The trust domain of a SPIFFE ID; undefined if it is none. */
export function trustDomainOf(id: string): string | undefined {
  const [, domain = '', path = ''] = /^spiffe:\/\/([^/]*)(\/.*)$/.exec(id) ?? []
  return isTrustDomain(domain) && SPIFFE_PATH.test(path) && !DOTS.test(path) && isPlain(id) ? domain : undefined
}

/** A repository of GitHub in lower case, which GitHub does not tell apart; undefined for anything else. */
export function repositoryOf(text: string): string | undefined {
  return REPOSITORY.test(text) && !DOTS.test(text) ? text.toLowerCase() : undefined
}

/**
 * Whether a text can be a pattern: `*` stands for any end, and only behind `/` or `:`. Empty segments and `..` would
 * make others read another pattern.
 */
export function isPattern(text: string): boolean {
  return isPlain(text) && /^[^*]*(?:[/:]\*)?$/.test(text) && !/\.\.|\/\//.test(text.replace(/^[a-z]+:\/\//, ''))
}

/** Whether a pattern covers a value. */
export function covers(pattern: string, value: string): boolean {
  if (!pattern.endsWith('*')) return pattern === value
  const start = pattern.slice(0, -1)
  const rest = value.slice(start.length)
  return value.startsWith(start) && rest !== '' && !/(?:^|\/)\.{0,2}(?:\/|$)/.test(rest)
}
