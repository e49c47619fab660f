// An agent in the runtime that runs this: `party.mjs DIRECTORY own|join|return CHANNEL [TOKEN]`.
import process from 'node:process'
import { StaticClient } from '@static/sdk'

const [dataDir, role, name, token] = process.argv.slice(2)
const { TRAFFIC: traffic = 'standard' } = process.env
const client = await StaticClient.connect({ dataDir, identity: dataDir.split('/').at(-1), traffic })
if (role === 'own') await echo(await client.createChannel(name))
else await ask(role === 'join' ? await client.joinWithToken(name, token) : client.channel(name))

/** Prints an invite and answers until it is killed. */
async function echo(channel) {
  process.stdout.write(`${await client.invite(name, { maxUses: 10 })}\n`)
  for await (const envelope of channel.envelopes()) {
    const text = envelope.text()
    if (text.startsWith('hello')) await channel.send(`echo of ${text}`)
  }
}

/** Sends, and prints the answer. One that has just joined is killed then. */
async function ask(channel) {
  const text = `hello, ${role} at ${Date.now()}`
  await channel.send(text)
  for await (const envelope of channel.envelopes()) if (envelope.text() === `echo of ${text}`) break
  await new Promise((resolve) => process.stdout.write('heard\n', resolve))
  if (role === 'join') process.kill(process.pid, 'SIGKILL')
  await client.close()
}
