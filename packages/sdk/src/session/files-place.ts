/** Where the parts of files are, as a relay announces it. */
import type { FilesPlace } from '../ports/index.ts'
import { isPort } from './dial.ts'
import type { AnnouncedFiles } from './io.ts'

const HTTPS_PORT = 443

/**
 * The place, by the URL or else by the port at the session's own host. Undefined if the relay announces none, or one
 * that cannot be. The server there must prove the name in the URL, so a lying relay can only name servers that the
 * agent's authorities vouch for.
 */
export function filesPlaceOf(
  { port, url }: AnnouncedFiles,
  { host, serverName }: Pick<FilesPlace, 'host' | 'serverName'>,
): FilesPlace | undefined {
  if (url !== '') return placeOfUrl(url)
  return isPort(port) ? { host, port, serverName } : undefined
}

function placeOfUrl(text: string): FilesPlace | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, hostname, port, pathname, search, hash, username, password } = new URL(text)
  const isPlain = pathname === '/' && search === '' && hash === '' && username === '' && password === ''
  if (protocol !== 'https:' || !isPlain) return undefined
  return { host: hostname, port: port === '' ? HTTPS_PORT : Number(port), serverName: hostname }
}
