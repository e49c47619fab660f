/** Hosts with an MCP server each, on one Static server, and agents of the test that they talk to. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OldHttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { type ClientOptions, StaticChannelManager } from '@static/sdk'
import { type Server, startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { MAIN } from '@static/testkit/server/process'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'

/** A sender in an answer of `receive`. */
export interface Sender {
  readonly sender: number
  readonly identity: string
  readonly fingerprint: string
  readonly agent_id: string
}

/** An entry in an answer of `receive`. */
export interface Entry {
  readonly index: number
  readonly id: string
  readonly time: string
  readonly redelivered: boolean
  readonly sender: number
  readonly request?: string
  readonly until?: string
  readonly text?: string
  readonly file?: string
  readonly bytes?: number
  readonly attachment?: { readonly id: string; readonly name: string; readonly type?: string; readonly bytes: number }
  readonly notice?: string
  readonly code?: string
}

/** An answer of `receive`. */
export interface Received {
  readonly senders: readonly Sender[]
  readonly channels: readonly { readonly channel: string; readonly entries: readonly Entry[] }[]
  readonly more: boolean
}

/** The result of a tool. */
export interface Result {
  readonly isError?: boolean
  readonly structuredContent?: unknown
  readonly content: readonly { readonly type: string; readonly text?: string }[]
}

/** A host: an official client with its server. */
export interface Host {
  call(name: string, args?: Record<string, unknown>): Promise<Result>
  close(): Promise<void>
}

/** A Static server with an account. */
export class Place implements AsyncDisposable {
  readonly workspace: Workspace
  readonly server: Server
  readonly #options: ClientOptions

  private constructor(workspace: Workspace, server: Server, options: ClientOptions) {
    this.workspace = workspace
    this.server = server
    this.#options = options
  }

  /** With `files`, its relay takes files. */
  static async open({ files = false }: { readonly files?: boolean } = {}): Promise<Place> {
    const workspace = await makeWorkspace()
    const server = await startServer({
      workspace,
      dataDir: join(workspace.path, 'server'),
      command: 'up',
      settings: { argon2: QUICK['argon2'] },
      logLevel: 'silent',
      ...(files && { relay: { filesPort: 0 } }),
    })
    const caFile = join(workspace.path, 'server/ca.pem')
    const ca = readFileSync(caFile, 'utf8')
    using client = makeClient(server.url, ca)
    const { api_key: key } = await signUp(client)
    const endpoint = `quic://localhost:${server.relay.quicPort}`
    return new Place(workspace, server, { endpoint, ca: caFile, apiUrl: server.url, apiKey: key.key })
  }

  /** The directory of an agent. */
  directory(identity: string): string {
    return join(this.workspace.path, 'agents', identity)
  }

  /** An agent in this process. */
  async agent(identity: string): Promise<StaticChannelManager> {
    return await StaticChannelManager.connect({ ...this.#options, identity, dataDir: this.directory(identity) })
  }

  /** A channel of an agent in this process, with other agents as members that are closed again. */
  async channel(owner: StaticChannelManager, name: string, ...others: readonly string[]): Promise<void> {
    await owner.create(name)
    for (const identity of others) {
      await using member = await this.agent(identity)
      await member.joinWithToken(name, await owner.invite(name))
    }
  }

  /** Environment and command line of a command for an agent. */
  command(identity: string, ...words: readonly string[]): Command {
    const { endpoint, apiUrl, apiKey } = this.#options
    return {
      command: process.execPath,
      args: [MAIN, ...words, '--as', identity, '--data-dir', this.directory(identity)],
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: this.workspace.path,
        TMPDIR: this.workspace.path,
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
        STATIC_RELAY: String(endpoint),
        STATIC_API_URL: String(apiUrl),
        STATIC_API_KEY: String(apiKey),
        STATIC_CA: String(this.#options.ca),
      },
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { pid } of HOSTS) end(pid)
    await this.server.end('SIGTERM')
    this.workspace[Symbol.dispose]()
  }
}

/** Hosts whose servers may still run, for example because a test has failed. */
const HOSTS: { readonly pid: number }[] = []

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

/** How to start a program. */
export interface Command {
  readonly command: string
  readonly args: string[]
  readonly env: Record<string, string>
}

/** A host with the client 2.x, which speaks the 2026 revision. */
export async function newHost(command: Command): Promise<Host & { readonly client: Client; readonly pid: number }> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  const transport = new StdioClientTransport({ ...command, stderr: 'ignore' })
  await client.connect(transport)
  const pid = transport.pid ?? 0
  HOSTS.push({ pid })
  return {
    client,
    pid,
    call: async (name, args = {}) => (await client.callTool({ name, arguments: args })) as Result,
    close: () => client.close(),
  }
}

/** A host with the client 1.x, which speaks the 2025 revisions. */
export async function oldHost(command: Command): Promise<Host & { readonly client: OldClient; readonly pid: number }> {
  const client = new OldClient({ name: 'test', version: '1' })
  const transport = new OldTransport({ ...command, stderr: 'ignore' })
  await client.connect(transport)
  const pid = transport.pid ?? 0
  HOSTS.push({ pid })
  return {
    client,
    pid,
    call: async (name, args = {}) => (await client.callTool({ name, arguments: args })) as Result,
    close: () => client.close(),
  }
}

/** Hosts of both generations at a server of `static mcp --http`. */
export async function httpHosts(url: string, token: string): Promise<readonly [Host, Host]> {
  const given = { requestInit: { headers: { authorization: `Bearer ${token}` } } }
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), given))
  assert.equal(client.getProtocolEra?.(), 'modern')
  const old = new OldClient({ name: 'test', version: '1' })
  const transport = new OldHttpTransport(new URL(url), given)
  await old.connect(transport)
  return [
    {
      call: async (name, args = {}) => (await client.callTool({ name, arguments: args })) as Result,
      close: () => client.close(),
    },
    {
      call: async (name, args = {}) => (await old.callTool({ name, arguments: args })) as Result,
      close: async () => {
        await transport.terminateSession()
        await old.close()
      },
    },
  ]
}

/** The answer of a call that succeeds, which must say the same as text. */
export async function ok<Answer>(host: Host, name: string, args: Record<string, unknown> = {}): Promise<Answer> {
  const { isError, structuredContent, content } = await host.call(name, args)
  const text = content[0]?.text ?? ''
  assert.ok(!isError, text)
  assert.deepEqual(JSON.parse(text), structuredContent)
  return structuredContent as Answer
}

/** The error of a call that fails. */
export async function refusal(host: Host, name: string, args: Record<string, unknown> = {}): Promise<RefusedCall> {
  const { isError, content } = await host.call(name, args)
  const text = content[0]?.text ?? ''
  assert.equal(isError, true, text)
  return (JSON.parse(text) as { error: RefusedCall }).error
}

/** An error as a model sees it. */
export interface RefusedCall {
  readonly code: string
  readonly message: string
}

/** Receives until something comes. */
export async function received(host: Host, args: Record<string, unknown> = {}): Promise<Received> {
  return await ok<Received>(host, 'receive', args)
}

/** The entries of an answer, of all channels. */
export function entriesOf({ channels }: Received): readonly Entry[] {
  return channels.flatMap(({ entries }) => entries)
}
