/**
 * A guest: joins a channel with nothing but an invite token, without an account, and says something.
 *
 *     npx static channel listen acme/support/routing --as alice        # the owner, in a terminal of its own
 *     npx static channel invite acme/support/routing --as alice | npx node examples/guest-joiner.ts acme/support/routing
 *
 * The token comes by stdin: arguments can be seen by other users of the machine.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { StaticChannelManager, StaticError } from '@static/sdk'

const name = process.argv[2] ?? 'acme/support/routing'
const token = (await text(process.stdin)).trim()
const home = mkdtempSync(join(tmpdir(), 'static-example-'))

// `apiKey: null` is a guest, also where a key is saved.
const guest = await StaticChannelManager.connect({ apiKey: null, dataDir: join(home, 'guest'), identity: 'guest' })
try {
  const channel = await guest.joinWithToken(name, token)
  // The owner of the channel sees the same words, if nobody is in between.
  console.log(`joined ${name}: ${channel.verify()}`)
  await guest.send(name, 'hello from a guest')
  await channel.leave()
} catch (error) {
  const { code, message } = StaticError.from(error)
  console.error(`${code}: ${message}`)
  process.exitCode = 1
} finally {
  await guest.close()
  rmSync(home, { recursive: true })
}
