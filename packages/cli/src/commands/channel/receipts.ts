/** `static channel receipts`: how far the members have processed a channel. */
import { Command } from 'commander'
import { shownIdentity } from '@static/protocol'
import type { ReceiptSummary } from '../../agent/receipt-actions.ts'
import { addAgentFlags, type AgentFlags, runOnAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { print, printJson, table } from '../../terminal/output.ts'
import { channelArgument } from './arguments.ts'

export function receiptsCommand(): Command {
  return addAgentFlags(
    new Command('receipts')
      .description('show how far each member has received and settled messages, by its signed receipts')
      .addArgument(channelArgument()),
  )
    .addHelpText(
      'after',
      `
Numbers are positions in the channel's log, as \`send\` and \`listen --json\` name them. A member that is offline is
shown with its last receipt.
${examples('static channel receipts acme/support/routing')}`,
    )
    .action(async (name: string, flags: AgentFlags) => {
      const receipts = await runOnAgent(flags, 'Reading receipts', 'receipts', name)
      if (flags.json) printJson({ channel: name, receipts })
      else print(table(['IDENTITY', 'DELIVERED', 'SETTLED', 'FINGERPRINT'], receipts.map(row)))
    })
}

function row({ identity, mode, delivered, settled, fingerprint }: ReceiptSummary): string[] {
  const isTold = mode === 'settled' || mode === 'delivered'
  return [
    shownIdentity(identity),
    isTold ? String(delivered) : mode,
    mode === 'settled' ? String(settled) : '-',
    fingerprint,
  ]
}
