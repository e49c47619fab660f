/** `static agent create`: creates an agent with a name of its own, without a channel. */
import { Command } from 'commander'
import { addAgentFlags, type AgentFlags, withAgent } from '../../agent/open.ts'
import { agentPlace, exists } from '../../agent/place.ts'
import { examples } from '../../terminal/examples.ts'
import { print, printJson } from '../../terminal/output.ts'

export function createCommand(): Command {
  return addAgentFlags(
    new Command('create').description('create an agent; `channel create` and `channel join` create one as well'),
  )
    .addHelpText('after', examples('static agent create --as billing'))
    .action(create)
}

async function create(flags: AgentFlags): Promise<void> {
  const { identity, dataDir } = agentPlace(flags)
  const isNew = !(await exists(dataDir))
  // A configured relay need not be reachable: the agent's name and keys are made here.
  const { agent_id: id, fingerprint } = await withAgent(flags, { share: false, create: true, wait: true }, (agent) =>
    agent.call('fingerprint'),
  )
  if (flags.json) return printJson({ identity, agent_id: id, fingerprint, directory: dataDir, created: isNew })
  print(isNew ? `Created agent ${identity} in ${dataDir}.` : `Agent ${identity} exists already, in ${dataDir}.`)
  print(`Its fingerprint is ${fingerprint}.`)
}
