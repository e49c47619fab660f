/** An app of the peer, connected to its node over TLS. */
import type { App, Name, Slim } from './library.ts'
import type { MemberOptions } from './options.ts'

/** The shared secret of a group, which the peer's simplest authentication requires. */
const SECRET = 'a shared secret of thirty-two bytes or more'

/**
 * A message that takes longer than this is lost: the bench fails rather than hangs. An echo waits that long for
 * its turn, as well.
 */
export const LOST_AFTER_MS = 120_000

/** Kept until the process ends, because the library closes objects that are garbage-collected. */
const held: object[] = []

/** An app that is connected. */
export interface ConnectedApp {
  readonly app: App
  readonly connection: bigint
}

/** The name of a member (by its number), of the sender, or of the channel of a group. */
export function nameOf(slim: Slim, group: string, role: number | 'sender' | 'channel'): Name {
  return new slim.Name('static', 'bench', `${group}-${role}`)
}

/** Connects an app and makes it reachable by its name. */
export async function connectApp(
  slim: Slim,
  { port, ca, group }: MemberOptions,
  role: number | 'sender',
): Promise<ConnectedApp> {
  const service = slim.createService(`${group}-${role}`)
  const name = nameOf(slim, group, role)
  const app = service.createAppWithSecret(name, SECRET)
  const config = slim.newSecureClientConfig(`https://localhost:${port}`)
  config.tls.caSource = slim.CaSource.File.new({ path: ca })
  const connection = await service.connectAsync(config)
  await app.subscribeAsync(name, connection)
  held.push(service, app)
  return { app, connection }
}
