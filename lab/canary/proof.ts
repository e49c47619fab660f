/**
 * `npm run proof -- canary`: two agents send each other a text that occurs nowhere else. Then searches for it, in every
 * encoding, in the memory, the files and the logs of API, relay and proxy, and in all packets. It must be found in the
 * agents' own memory, or the search would prove nothing. One of them joins with a proof of who runs it: what that claims is
 * searched for as well.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { StaticChannelManager } from '@static/sdk'
import { userPlaces } from '@static/sdk/account'
import { afterFetch, DomainStore, fetchKeys, holdStatement, parseRoot, TrustStore } from '@static/sdk/trust'
import { formsOf, contentOf } from '@static/testkit/search'
import { startProxyProcess, startRelayProcess, startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { runCommand } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { fail, say } from '../../scripts/step.ts'
import { countIn, countInMemory } from './memory.ts'

const MESSAGES = 1000
const CHANNEL = 'acme/canary/one'
const DOMAIN = 'claimed-canary.example'

using workspace = await makeWorkspace()
process.env['XDG_DATA_HOME'] = workspace.directory('data')
const [apiDir, relayDir] = [workspace.directory('api'), workspace.directory('relay')]
await using api = await startServer({ workspace, dataDir: apiDir, internal: true, logLevel: 'debug' })
const credential = join(apiDir, 'relay.credential')
await using relay = await startRelayProcess({ workspace, dataDir: relayDir, api, credential })
const certificate = join(workspace.path, 'client')
await runCommand(['admin', 'proxy-certificate', certificate, '--data-dir', join(workspace.path, 'ca')])
const shown = { cert: join(certificate, 'client.pem'), key: join(certificate, 'client.key') }
await using proxy = await startProxyProcess({ workspace, quicPort: relay.quicPort, client: shown })

const capture = join(workspace.path, 'packets.pcap')
const ports = [relay.grpcPort, relay.quicPort, proxy.grpcPort, Number(new URL(api.url).port)]
const filter = ports.map((port) => `port ${port}`).join(' or ')
const tcpdump = spawn('tcpdump', ['-i', 'lo', '-U', '-w', capture, filter], { stdio: ['ignore', 'ignore', 'pipe'] })
await once(tcpdump.stderr, 'data')

using client = makeClient(api.url, workspace.ca)
const account = await signUp(client)
const options = { apiUrl: api.url, apiKey: account.api_key.key, ca: workspace.ca, fallback: false } as const
const connect = (identity: string, endpoint: string): Promise<StaticChannelManager> =>
  StaticChannelManager.connect({ ...options, identity, endpoint, dataDir: join(workspace.path, identity) })
const ann = await connect('ann', `https://localhost:${proxy.grpcPort}`)
const bob = await connect('bob', `quic://localhost:${relay.quicPort}`)
const sending = await ann.client.createChannel(CHANNEL)
// A name that only the issuer, the agent and its channel know.
const subject = `canary-${randomBytes(16).toString('hex')}`
const keys = join(workspace.path, 'static-agents.json')
const domain = new DomainStore(userPlaces().domains, DOMAIN)
domain.init()
writeFileSync(keys, domain.publicFile(Date.now()))
const [root, trust] = [parseRoot(DOMAIN, { keys }), new TrustStore(userPlaces().trust)]
const file = await fetchKeys(root, undefined)
trust.update(root, (known) => afterFetch(root, known, file, Date.now()))
trust.change(() => [{ root }])
holdStatement(join(workspace.path, 'bob'), await domain.sign({ agentId: bob.client.agentId, subject }, 30, Date.now()))
const token = await ann.invite(CHANNEL, { require: DOMAIN })
const receiving = await bob.joinWithToken(CHANNEL, token, 60, { show: DOMAIN })
const proven = sending.members().find(({ agentId }) => agentId === bob.client.agentId)?.proof
if (proven?.state !== 'checked' || proven.subject !== subject) fail('The proof was not checked.')

const canary = randomBytes(16).toString('hex')
say(`Sending the canary ${MESSAGES} times`)
const done = (async () => {
  let left = MESSAGES
  for await (const payload of receiving.messages()) {
    if (!Buffer.from(payload).includes(canary)) fail('A message arrived changed.')
    if (--left === 0) return
  }
})()
for (let at = 0; at < MESSAGES; at++) await sending.send(`message ${at}: ${canary}`)
await done
tcpdump.kill('SIGINT')
await once(tcpdump, 'close')

say('Searching')
const forms = formsOf(canary)
const claims = [...formsOf(subject), ...formsOf(DOMAIN)]
const everything = [...forms, ...claims]
const count = (bytes: Buffer, what = everything): number => what.reduce((sum, form) => sum + countIn(bytes, form), 0)
const found = {
  'memory of the agents': countInMemory(process.pid, forms),
  'memory of the API': countInMemory(api.pid, everything),
  'memory of the relay': countInMemory(relay.pid, everything),
  'memory of the proxy': countInMemory(proxy.pid, everything),
  'files of the API': count(contentOf(apiDir)),
  'files of the relay': count(contentOf(relayDir)),
  'files of the agents': count(
    Buffer.concat([contentOf(join(workspace.path, 'ann')), contentOf(join(workspace.path, 'bob'))]),
    forms,
  ),
  logs: count(Buffer.from(api.errors() + relay.errors() + proxy.errors())),
  packets: count(readFileSync(capture)),
}
for (const [where, times] of Object.entries(found)) process.stdout.write(`${String(times).padStart(6)}  ${where}\n`)
await Promise.all([ann.close(), bob.close()])
const { 'memory of the agents': inside, ...outside } = found
// Controls: the agents have the canary, the relay knows the channel's name, and the packets were recorded.
const isSeen =
  inside > 0 && countInMemory(process.pid, claims) > 0 && countInMemory(relay.pid, [Buffer.from(CHANNEL)]) > 0
if (!isSeen || statSync(capture).size < MESSAGES * 1024)
  fail('What must be there was not found: the search proves nothing.')
const hits = Object.values(outside).reduce((sum, times) => sum + times, 0)
if (hits > 0) fail(`The canary was found ${hits} times outside the agents.`)
process.stdout.write(
  `promise T8: a canary sent ${MESSAGES} times, and what a proof claims: 0 hits outside the agents, ${inside} inside\n`,
)
