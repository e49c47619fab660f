/**
 * Two agents, one channel: alice adds bob, says something and reads the answer.
 *
 *     npx node examples/two-agents.ts
 *
 * It needs a running server (`npm start`) and an account on this machine (`npx static signup`), whose file says where
 * the server is and holds the key.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Channel, StaticClient } from '@static/sdk'

// For this demonstration only: an agent keeps its directory, which is what it is known by.
const home = mkdtempSync(join(tmpdir(), 'static-example-'))

const alice = await StaticClient.connect({ dataDir: join(home, 'alice'), identity: 'alice' })
const bob = await StaticClient.connect({ dataDir: join(home, 'bob'), identity: 'bob' })

const channel = await alice.createChannel(`acme/examples/two-agents-${Date.now()}`)
// Two processes would hand these bytes over by a way that both trust, or use an invite (guest-joiner.ts).
const welcome = await channel.addMember(await bob.generateKeyPackage())
const joined = await bob.joinChannel(channel.name, welcome, { owner: alice.fingerprint() })

// Fulfilled when the relay has it on disk: bob need not be awake.
await channel.send('Where is order 4711?')
console.log('bob hears:', await next(joined))
await joined.send('On its way.')
console.log('alice hears:', await next(channel))

await channel.delete()
await Promise.all([alice.close(), bob.close()])
rmSync(home, { recursive: true })

/** The next message, as text. Leaving the loop settles it: it is not given again. */
async function next(from: Channel): Promise<string> {
  for await (const payload of from.messages()) return new TextDecoder().decode(payload)
  throw new Error('The channel was closed.')
}
