/** What an operator got wrong is said at the start, in one sentence. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { failCommand, sentenceOf, startCommand } from '@static/testkit/server/process'
import {
  proxyWords,
  type RelayProcess,
  relayWords,
  type Server,
  startRelayProcess,
  startServer,
} from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

const workspace = await makeWorkspace()
const foreign = await makeWorkspace({ foreign: true })
const apiDir = workspace.directory('api')
const credential = join(apiDir, 'relay.credential')
let api: Server
let relay: RelayProcess
let relayCommand: string[]
let proxyCommand: string[]

before(async () => {
  api = await startServer({ workspace, dataDir: apiDir, settings: QUICK, internal: true })
  relay = await startRelayProcess({ workspace, dataDir: workspace.directory('relay'), api, credential })
  relayCommand = relayWords({ workspace, dataDir: workspace.directory('refused'), api, credential })
  const { cert, key } = await workspace.authority.issueClient()
  const client = { cert: workspace.file('client.pem', cert), key: workspace.file('client.key', key) }
  proxyCommand = proxyWords({ workspace, quicPort: relay.quicPort, client })
})
after(async () => {
  await relay[Symbol.asyncDispose]()
  await api[Symbol.asyncDispose]()
  for (const one of [workspace, foreign]) one[Symbol.dispose]()
})

/** The words with other values of some flags; `undefined` leaves a flag out. */
function change(words: readonly string[], flags: Record<string, string | undefined>): string[] {
  const changed = [...words]
  for (const [flag, value] of Object.entries(flags)) {
    const at = changed.indexOf(flag)
    if (at < 0 && value !== undefined) changed.push(flag, value)
    else changed.splice(at, 2, ...(value === undefined ? [] : [flag, value]))
  }
  return changed
}

/** It ends with exactly one sentence that matches, and exit code 1. */
async function refuses(words: readonly string[], sentence: RegExp): Promise<void> {
  const { code, errors } = await failCommand(words)
  assert.match(sentenceOf(errors), sentence)
  assert.match(sentenceOf(errors), /^[^\n]+\.$/)
  assert.doesNotMatch(errors, /went wrong inside|\bat .*:\d+:\d+|node:internal|Error:/)
  assert.equal(code, 1)
}

/** It is not understood: the flag is named, exit code 2. */
async function misunderstands(words: readonly string[], sentence: RegExp): Promise<void> {
  const { code, errors } = await failCommand(words)
  assert.match(errors, sentence)
  assert.equal(code, 2)
}

// Each of them starts processes and waits for them: two at a time.
const TWO = { concurrency: 2 }

describe('static relay', TWO, () => {
  test('without a certificate', async () => {
    await refuses(change(relayCommand, { '--cert': undefined, '--key': undefined }), /--cert and --key are required/)
  })

  test('with an invalid certificate, or one with another key', async () => {
    const garbage = workspace.file('garbage.pem', 'garbage')
    await refuses(change(relayCommand, { '--cert': garbage }), /garbage\.pem does not contain a PEM certificate/)
    await refuses(change(relayCommand, { '--key': workspace.keyFile }), /does not match the certificate/)
    const own = { '--data-dir': workspace.directory('garbage') }
    await refuses(change(relayCommand, { '--proxy-ca': garbage, ...own }), /proxy CA is not a PEM certificate/)
  })

  test('with a credential that the API refuses', async () => {
    const wrong = workspace.file('wrong.credential', 'x'.repeat(64))
    await refuses(change(relayCommand, { '--credential': wrong }), /rejected the relay credential/)
  })

  test('with an invalid API address, or that of another listener', async () => {
    await misunderstands(change(relayCommand, { '--api-url': undefined }), /required option '--api-url/)
    await misunderstands(change(relayCommand, { '--api-url': 'nonsense' }), /such as https:\/\/api\.example\.com/)
    await refuses(change(relayCommand, { '--api-internal-url': api.url }), /is not the listener for relay nodes/)
  })

  test('on a port in use', async () => {
    const tcp = createServer().listen(0, '127.0.0.1')
    const udp = createSocket('udp4').bind(0, '127.0.0.1')
    await Promise.all([once(tcp, 'listening'), once(udp, 'listening')])
    const tcpPort = String((tcp.address() as AddressInfo).port)
    const udpPort = String(udp.address().port)
    const own = { '--data-dir': workspace.directory('taken') }
    await refuses(change(relayCommand, { '--grpc-port': tcpPort, ...own }), /port \d+: it is in use by another program/)
    await refuses(
      change(relayCommand, { '--quic-port': udpPort, ...own }),
      /UDP port \d+: it is in use by another program/,
    )
    tcp.close()
    udp.close()
  })

  test('on the data of another process, or with an unknown setting', async () => {
    await refuses(change(relayCommand, { '--data-dir': join(workspace.path, 'relay') }), /is locked by another process/)
    const settings = workspace.file('wrong.json', '{"sesion":{}}')
    await refuses(change(relayCommand, { '--relay-settings': settings }), /Unknown setting sesion/)
  })
})

describe('static proxy', TWO, () => {
  test('without a client certificate, or with an invalid address', async () => {
    await refuses(change(proxyCommand, { '--relay': 'localhost:4433' }), /a URL such as quic:/)
    await misunderstands(change(proxyCommand, { '--client-key': undefined }), /required option '--client-key/)
  })

  test('to a relay with another authority', async () => {
    await refuses(change(proxyCommand, { '--relay-ca': foreign.caFile }), /not signed by a trusted CA/)
  })

  test('with a client certificate that the relay does not accept', async () => {
    const { cert, key } = await foreign.authority.issueClient()
    const stranger = {
      '--client-cert': workspace.file('stranger.pem', cert),
      '--client-key': workspace.file('stranger.key', key),
    }
    await refuses(
      change(proxyCommand, stranger),
      /not signed by an authority that the relay trusts|the server refused the client certificate/,
    )
    const server = { '--client-cert': workspace.nameCertFile, '--client-key': workspace.nameKeyFile }
    await refuses(change(proxyCommand, server), /it is not for clients|the server refused the client certificate/)
  })

  test('to a relay that accepts no proxies', async () => {
    const words = change(relayCommand, { '--data-dir': workspace.directory('no-proxies'), '--proxy-ca': undefined })
    await using plain = await startCommand<{ quic_ports: readonly number[] }>(words)
    const [port] = plain.ready.quic_ports
    await refuses(change(proxyCommand, { '--relay': `quic://localhost:${port}` }), /does not accept this proxy/)
  })
})
