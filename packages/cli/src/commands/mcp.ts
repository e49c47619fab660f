/** `static mcp`: an agent as an MCP server, for a language model. */
import { realpathSync, statSync } from 'node:fs'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { AgentFlags } from '../agent/open.ts'
import { addAgentFlags } from '../agent/open.ts'
import { agentPlace } from '../agent/place.ts'
import { examples } from '../terminal/examples.ts'
import { untilInterrupted } from '../terminal/interrupt.ts'
import { facts, note, print, printJson } from '../terminal/output.ts'

interface Flags extends AgentFlags {
  readonly manage?: boolean
  readonly push?: boolean
  readonly sendFrom?: string
  readonly http?: number
  readonly json?: boolean
}

const MOST_PORT = 65_535
/** How long closing may take before the process ends anyway; unsettled messages are delivered again. */
const CLOSE_MS = 1500

export function mcpCommand(): Command {
  return addAgentFlags(
    new Command('mcp')
      .option('--manage', 'let the model create, invite to, join and leave channels; invites end up in its context')
      .option('--send-from <dir>', 'let the model send files below this directory', directory)
      .addOption(
        new Option('--http <port>', 'serve hosts over HTTP on this port of 127.0.0.1 instead of stdin; 0: a free one')
          .argParser(port)
          .conflicts('push'),
      )
      .option('--push', 'notify hosts that support claude/channel when a message is waiting'),
  )
    .addHelpText(
      'after',
      `
For the configuration of an MCP host, such as a coding agent. The model gets the tools channels, members, send, receive,
save_file, ask, answer and verify, and with --send-from send_file. The relay need not be reachable when it starts.

--http prints its address and, when it is made, the token that hosts must send (Authorization: Bearer …). The file
mcp-token in the agent's directory keeps it, for you alone; delete the file to get another one.
${examples('static mcp --as reviewer', 'static mcp --as reviewer --manage', 'static mcp --as reviewer --send-from ./out', 'static mcp --as reviewer --http 4440')}`,
    )
    .action(serve)
}

/** The real path: links in it are followed once, here. */
function directory(text: string): string {
  try {
    const path = realpathSync(text)
    if (statSync(path).isDirectory()) return path
  } catch {
    // As below.
  }
  throw new InvalidArgumentError('Expected a directory that exists.')
}

function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= MOST_PORT) return Number(text)
  throw new InvalidArgumentError(`Expected a port number from 0 to ${MOST_PORT}.`)
}

async function serve(flags: Flags): Promise<void> {
  if (flags.http === undefined) await serveStdio(flags)
  else await serveOverHttp(flags, flags.http)
  process.exit()
}

async function serveOverHttp(flags: Flags, wanted: number): Promise<void> {
  const { serveHttp } = await import('../mcp/http.ts')
  const { dataDir } = agentPlace(flags)
  const host = await serveHttp(flags, { dataDir, manage: flags.manage === true, sendFrom: flags.sendFrom }, wanted)
  try {
    const { url, token, path, isNew } = host
    if (flags.json) printJson({ url, token_file: path, ...(isNew && { token }) })
    else print(facts([['url', url], ...(isNew ? ([['token', token]] as const) : []), ['token file', path]]))
    note('serving MCP hosts on this machine; press Ctrl-C to stop.')
    await untilInterrupted(new Promise<never>(() => {}))
  } finally {
    setTimeout(() => process.exit(), CLOSE_MS).unref()
    await host.close()
  }
}

async function serveStdio(flags: Flags): Promise<void> {
  const { runHost } = await import('../mcp/run.ts')
  const { dataDir } = agentPlace(flags)
  if (process.stdin.isTTY) note('this is an MCP server: it speaks JSON-RPC on stdin. Start it from an MCP host.')
  const { manage = false, push = false, sendFrom } = flags
  const host = runHost(flags, { dataDir, manage, push, sendFrom })
  try {
    await untilInterrupted(host.closed)
  } finally {
    // A host that is gone does not wait, and one that never reads must not keep the process alive.
    setTimeout(() => process.exit(), CLOSE_MS).unref()
    await host.close()
  }
}
