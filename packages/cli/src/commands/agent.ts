/** `static agent`: commands on the agent itself rather than its channels. */
import { Command } from 'commander'
import { examples } from '../terminal/examples.ts'
import { addProofCommand } from './agent/add-proof.ts'
import { acceptRelayCommand } from './agent/accept-relay.ts'
import { deleteCommand, exportFingerprintCommand, listCommand } from './agent/directories.ts'
import { createCommand } from './agent/create.ts'
import { historyCommand } from './agent/history.ts'
import { slotsCommand } from './agent/slots.ts'

export function agentCommand(): Command {
  return new Command('agent')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(exportFingerprintCommand())
    .addCommand(deleteCommand())
    .addCommand(addProofCommand())
    .addCommand(acceptRelayCommand())
    .addCommand(slotsCommand())
    .addCommand(historyCommand())
    .addHelpText(
      'after',
      examples('static agent create --as billing', 'static agent list', 'static agent export-fingerprint --as billing'),
    )
}
