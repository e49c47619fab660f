/**
 * One sender, many receivers: the sender encrypts and sends each message once, and the relay delivers it to everyone.
 *
 *     npx node examples/fan-out.ts [receivers]
 *
 * Requires a running server (`npm start`) and an account on this machine (`npx static signup`).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StaticClient } from '@static/sdk'

const RECEIVERS = Number(process.argv[2] ?? 5)
const TASKS = ['index the archive', 'check the links', 'report']
const home = mkdtempSync(join(tmpdir(), 'static-example-'))
const connect = (identity: string): Promise<StaticClient> =>
  StaticClient.connect({ dataDir: join(home, identity), identity })

const sender = await connect('sender')
const receivers = await Promise.all(Array.from({ length: RECEIVERS }, (_, at) => connect(`worker-${at + 1}`)))

const channel = await sender.createChannel(`acme/examples/fan-out-${Date.now()}`)
// One commit adds all of them.
const welcomes = await channel.addMembers(await Promise.all(receivers.map((each) => each.generateKeyPackage())))

const work = receivers.map(async (receiver, at) => {
  const welcome = welcomes[at]
  if (!welcome) throw new Error(`worker-${at + 1} was added without a Welcome.`)
  const joined = await receiver.joinChannel(channel.name, welcome)
  const heard: string[] = []
  for await (const envelope of joined.envelopes()) {
    heard.push(envelope.text())
    envelope.settle()
    if (heard.length === TASKS.length) break
  }
  return heard.join(', ')
})

for (const task of TASKS) await channel.send(task)
for (const [at, heard] of (await Promise.all(work)).entries()) console.log(`worker-${at + 1}: ${heard}`)

await channel.delete()
await Promise.all([sender, ...receivers].map((each) => each.close()))
rmSync(home, { recursive: true })
