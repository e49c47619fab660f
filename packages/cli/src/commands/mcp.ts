/** `static mcp`: an agent as an MCP server on stdin and stdout, for a language model. */
import { Command } from 'commander'
import type { AgentFlags } from '../agent/open.ts'
import { addAgentFlags } from '../agent/open.ts'
import { agentPlace } from '../agent/place.ts'
import { examples } from '../terminal/examples.ts'
import { untilInterrupted } from '../terminal/interrupt.ts'
import { note } from '../terminal/output.ts'

interface Flags extends AgentFlags {
  readonly manage?: boolean
  readonly push?: boolean
}

/** How long closing may take before the process ends anyway; unsettled messages are delivered again. */
const CLOSE_MS = 1500

export function mcpCommand(): Command {
  return addAgentFlags(
    new Command('mcp')
      .option('--manage', 'let the model create, invite to, join and leave channels; invites end up in its context')
      .option('--push', 'notify hosts that support claude/channel when a message is waiting'),
  )
    .addHelpText(
      'after',
      `
For the configuration of an MCP host, such as a coding agent. The model gets the tools channels, members, send, receive,
ask, answer and verify. The relay need not be reachable when it starts.
${examples('static mcp --as reviewer', 'static mcp --as reviewer --manage')}`,
    )
    .action(serve)
}

async function serve(flags: Flags): Promise<void> {
  const { runHost } = await import('../mcp/run.ts')
  const { dataDir } = agentPlace(flags)
  if (process.stdin.isTTY) note('this is an MCP server: it speaks JSON-RPC on stdin. Start it from an MCP host.')
  const host = runHost(flags, { dataDir, manage: flags.manage === true, push: flags.push === true })
  try {
    await untilInterrupted(host.closed)
  } finally {
    // A host that is gone does not wait, and one that never reads must not keep the process alive.
    setTimeout(() => process.exit(), CLOSE_MS).unref()
    await host.close()
  }
  process.exit()
}
