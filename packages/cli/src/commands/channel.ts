/** `static channel`: encrypted channels, used by an agent on this machine. */
import { Command } from 'commander'
import { examples } from '../terminal/examples.ts'
import { approvalsCommand, decideCommand } from './channel/approvals.ts'
import { askCommand, serveCommand } from './channel/ask.ts'
import { deleteCommand } from './channel/delete.ts'
import { acceptForkCommand, liftBarCommand, rejectCommitCommand } from './channel/disputes.ts'
import { filesCommand } from './channel/files.ts'
import { historyCommand } from './channel/history.ts'
import { inviteCommand } from './channel/invite.ts'
import { joinCommand } from './channel/join.ts'
import { listenCommand } from './channel/listen.ts'
import {
  createCommand,
  leaveCommand,
  listCommand,
  resetRosterCommand,
  rotateCommand,
  verifyCommand,
} from './channel/manage.ts'
import { acceptNewKeyCommand, membersCommand, removeCommand, vouchCommand } from './channel/members.ts'
import { standbyCommand, takeOverCommand, transferCommand } from './channel/ownership.ts'
import { poisonCommand } from './channel/poison.ts'
import { receiptsCommand } from './channel/receipts.ts'
import { requestApprovalCommand } from './channel/request-approval.ts'
import { sendCommand } from './channel/send.ts'

export function channelCommand(): Command {
  return new Command('channel')
    .enablePositionalOptions()
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(membersCommand())
    .addCommand(vouchCommand())
    .addCommand(removeCommand())
    .addCommand(acceptNewKeyCommand())
    .addCommand(inviteCommand())
    .addCommand(joinCommand())
    .addCommand(sendCommand())
    .addCommand(listenCommand())
    .addCommand(filesCommand())
    .addCommand(historyCommand())
    .addCommand(askCommand())
    .addCommand(serveCommand())
    .addCommand(requestApprovalCommand())
    .addCommand(approvalsCommand())
    .addCommand(decideCommand())
    .addCommand(receiptsCommand())
    .addCommand(poisonCommand())
    .addCommand(verifyCommand())
    .addCommand(acceptForkCommand())
    .addCommand(rejectCommitCommand())
    .addCommand(liftBarCommand())
    .addCommand(rotateCommand())
    .addCommand(resetRosterCommand())
    .addCommand(standbyCommand())
    .addCommand(transferCommand())
    .addCommand(takeOverCommand())
    .addCommand(leaveCommand())
    .addCommand(deleteCommand())
    .addHelpText(
      'after',
      `
Each agent has its own directory, by default <XDG data>/static/agents/<identity>, or with
--account <XDG data>/static/accounts/<account>/agents/<identity>. While \`listen\` runs, other commands
for the same agent go through it.
${examples(
  'static channel create acme/support/routing',
  'static channel invite acme/support/routing',
  'static channel listen acme/support/routing',
  'echo hello | static channel send acme/support/routing',
)}`,
    )
}
