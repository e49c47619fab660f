/** `static a2a`: A2A over a channel. */
import { Command } from 'commander'
import { a2aInterface, StaticError } from '@static/protocol'
import { addAgentFlags, type AgentFlags, runOnAgent } from '../agent/open.ts'
import { examples } from '../terminal/examples.ts'
import { print } from '../terminal/output.ts'
import { channelArgument } from './channel/arguments.ts'

export function a2aCommand(): Command {
  return new Command('a2a').addCommand(cardCommand())
}

function cardCommand(): Command {
  return addAgentFlags(
    new Command('card')
      .description("print this agent's entry for `supportedInterfaces` of an A2A Agent Card, as JSON")
      .addArgument(channelArgument()),
  )
    .addHelpText(
      'after',
      `
A program serves it with \`serveA2A\` of @static/a2a, and clients that are members call it with \`a2aTransport\`.
${examples('static a2a card acme/support/routing')}`,
    )
    .action(card)
}

async function card(name: string, flags: AgentFlags): Promise<void> {
  const members = await runOnAgent(flags, 'Reading channels', 'members', name)
  const self = members.find((member) => member.self)
  if (!self) throw StaticError.of('removed', `This agent is no longer a member of channel ${name}.`)
  const entry = a2aInterface(name, self.agent_id)
  print(JSON.stringify(entry, undefined, flags.json ? 0 : 2))
}
