/**
 * A guest joins a channel with only an invite token, without an account, and sends a message.
 *
 *     npx static channel listen acme/support/routing --as alice        # the owner, in another terminal
 *     npx static channel invite acme/support/routing --as alice | npx node examples/guest-joiner.ts acme/support/routing
 *
 * The token comes from stdin, because other users of the machine can see arguments.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { StaticClient, StaticError } from '@static/sdk'

const name = process.argv[2] ?? 'acme/support/routing'
const token = (await text(process.stdin)).trim()
const home = mkdtempSync(join(tmpdir(), 'static-example-'))

// `apiKey: null` makes a guest, even if a key is saved on this machine.
const guest = await StaticClient.connect({ apiKey: null, dataDir: join(home, 'guest'), identity: 'guest' })
try {
  const channel = await guest.joinWithToken(name, token)
  // The channel's owner sees the same words unless there is someone in the middle.
  console.log(`joined ${name}: ${channel.verify()}`)
  await channel.send('hello from a guest')
  await channel.leave()
} catch (error) {
  const { code, message } = StaticError.from(error)
  console.error(`${code}: ${message}`)
  process.exitCode = 1
} finally {
  await guest.close()
  rmSync(home, { recursive: true })
}
