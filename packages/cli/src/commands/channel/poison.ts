/** `static channel poison list|retry|drop`: messages that a program's handler has failed on too often. */
import { Argument, Command } from 'commander'
import { addAgentFlags, type AgentFlags, withAgent } from '../../agent/open.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument, wholeNumber } from './arguments.ts'

interface DropFlags extends AgentFlags {
  readonly yes?: boolean
}

export function poisonCommand(): Command {
  return new Command('poison')
    .description('list, retry or drop messages that a handler failed on and that were put aside')
    .addCommand(listCommand())
    .addCommand(retryCommand())
    .addCommand(dropCommand())
}

function listCommand(): Command {
  return addAgentFlags(
    new Command('list').description('list the messages that were put aside').addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel poison list acme/support/routing --as billing'))
    .action(async (name: string, flags: AgentFlags) => {
      const messages = await withAgent(flags, { share: false }, (agent) =>
        withProgress('Reading messages', agent.call('poisonList', name)),
      )
      if (flags.json) return printJson({ channel: name, messages })
      if (messages.length === 0) return note('no message was put aside.')
      const rows = messages.map(({ index, time, sender, bytes, attempts, reason }) => [
        String(index),
        time,
        sender.identity,
        String(bytes),
        String(attempts),
        reason,
      ])
      print(table(['INDEX', 'TIME', 'SENDER', 'BYTES', 'ATTEMPTS', 'REASON'], rows))
    })
}

function retryCommand(): Command {
  return addAgentFlags(
    new Command('retry')
      .description('deliver messages again, with all their attempts')
      .addArgument(channelArgument())
      .addArgument(indexArgument()),
  )
    .addHelpText('after', examples('static channel poison retry acme/support/routing 17 18 --as billing'))
    .action(async (name: string, indexes: readonly number[], flags: AgentFlags) => {
      await withAgent(flags, { share: false }, (agent) =>
        withProgress('Moving messages', agent.call('poisonRetry', name, indexes)),
      )
      if (flags.json) printJson({ channel: name, retried: indexes })
      else print(`Moved ${count(indexes)} back to the inbox of ${name}.`)
    })
}

function dropCommand(): Command {
  return addAgentFlags(
    new Command('drop')
      .description('delete messages that were put aside, for good')
      .addArgument(channelArgument())
      .addArgument(indexArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText('after', examples('static channel poison drop acme/support/routing 17 --as billing'))
    .action(async (name: string, indexes: readonly number[], flags: DropFlags) => {
      if (!flags.yes) await confirm(`${count(indexes)} of ${name} will be deleted, permanently. Continue?`)
      await withAgent(flags, { share: false }, (agent) =>
        withProgress('Deleting messages', agent.call('poisonDrop', name, indexes)),
      )
      if (flags.json) printJson({ channel: name, dropped: indexes })
      else print(`Deleted ${count(indexes)}.`)
    })
}

function indexArgument(): Argument {
  const parse = (word: string, before: readonly number[] = []): readonly number[] => [...before, wholeNumber(word)]
  return new Argument('<index...>', 'the index of a message, as `list` shows it').argParser(parse)
}

function count(indexes: readonly number[]): string {
  return indexes.length === 1 ? '1 message' : `${indexes.length} messages`
}
