/** `static agent`: commands on the agent itself rather than its channels. */
import { Command } from 'commander'
import { examples } from '../terminal/examples.ts'
import { slotsCommand } from './agent/slots.ts'

export function agentCommand(): Command {
  return new Command('agent')
    .addCommand(slotsCommand())
    .addHelpText('after', examples('static agent slots list', 'static agent slots add passphrase'))
}
