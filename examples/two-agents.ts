/**
 * Two agents, one channel: alice adds bob, sends a message and reads the reply.
 *
 *     npx node examples/two-agents.ts
 *
 * Requires a running server (`npm start`) and an account on this machine (`npx static signup`). The program reads the
 * server's address and the key from the account's file.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Channel, StaticClient } from '@static/sdk'

// Only for this demo: a real agent keeps its directory, which holds its identity.
const home = mkdtempSync(join(tmpdir(), 'static-example-'))

const alice = await StaticClient.connect({ dataDir: join(home, 'alice'), identity: 'alice' })
const bob = await StaticClient.connect({ dataDir: join(home, 'bob'), identity: 'bob' })

const channel = await alice.createChannel(`acme/examples/two-agents-${Date.now()}`)
// Two processes would exchange these bytes over a path that both trust, or use an invite (guest-joiner.ts).
const welcome = await channel.addMember(await bob.generateKeyPackage())
const joined = await bob.joinChannel(channel.name, welcome, { owner: alice.fingerprint() })

// Resolves once the relay has the message on disk; bob can be offline.
await channel.send('Where is order 4711?')
console.log('bob hears:', await next(joined))
await joined.send('On its way.')
console.log('alice hears:', await next(channel))

await channel.delete()
await Promise.all([alice.close(), bob.close()])
rmSync(home, { recursive: true })

/** Returns the next message as text, and settles it, so that it is not delivered again. */
async function next(from: Channel): Promise<string> {
  for await (const envelope of from.envelopes()) {
    envelope.settle()
    return envelope.text()
  }
  throw new Error(`Channel ${from.name} was closed.`)
}
