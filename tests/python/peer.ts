/**
 * A TypeScript agent for the Python tests: creates or joins a channel, echoes messages, prints its verify words. If it has
 * an issuer, it shows tokens of it.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { type ClientOptions, StaticChannelManager } from '@static/sdk'
import { mintToken } from '@static/testkit/issuers/oidc'

interface Ask {
  readonly options: ClientOptions
  readonly name: string
  /** The token to join with; without it the channel is created. */
  readonly token?: string
  readonly issuer?: { readonly address: string; readonly ca: string }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const first = await lines.next()
const { options, name, token, issuer } = JSON.parse(String(first.value)) as Ask
const proof = async (audience: string): Promise<string> => {
  const [, port] = (issuer?.address ?? '').split(':')
  return await mintToken({ port: Number(port), ca: readFileSync(issuer?.ca ?? '', 'utf8') }, audience)
}
await using manager = await StaticChannelManager.connect(issuer ? { ...options, proof } : options)
const channel =
  token === undefined
    ? await manager.create(name)
    : await manager.joinWithToken(name, token, undefined, issuer ? { show: true } : {})
console.log(token === undefined ? await manager.invite(name) : 'joined')

async function echo(): Promise<void> {
  for await (const payload of channel.messages()) await channel.send(payload)
}
const echoing = echo()
for await (const _ of { [Symbol.asyncIterator]: () => lines }) console.log(channel.verify())
channel.close()
await echoing
