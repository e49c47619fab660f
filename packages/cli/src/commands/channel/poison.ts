/** `static channel poison list|retry|drop`: messages that a program's handler failed on too often. */
import { Argument, Command, InvalidArgumentError } from 'commander'
import { addAgentFlags, type AgentFlags, withAgent } from '../../agent/open.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument } from './arguments.ts'

interface DropFlags extends AgentFlags {
  readonly yes?: boolean
}

export function poisonCommand(): Command {
  return new Command('poison')
    .description('list, retry or drop messages put aside because their handler failed')
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
      const rows = messages.map(({ message_id, index, time, sender, bytes, attempts, reason }) => [
        message_id,
        String(index),
        time,
        sender.name,
        String(bytes),
        String(attempts),
        reason,
      ])
      print(table(['MESSAGE', 'INDEX', 'TIME', 'SENDER', 'BYTES', 'ATTEMPTS', 'REASON'], rows))
    })
}

function retryCommand(): Command {
  return addAgentFlags(
    new Command('retry')
      .description('deliver messages again and count their attempts from zero')
      .addArgument(channelArgument())
      .addArgument(messageArgument()),
  )
    .addHelpText(
      'after',
      examples('static channel poison retry acme/support/routing 019c7f1e2a40b3d5c8e6f71a2b9d4c50 --as billing'),
    )
    .action(async (name: string, messages: readonly string[], flags: AgentFlags) => {
      await withAgent(flags, { share: false }, (agent) =>
        withProgress('Moving messages', agent.call('poisonRetry', name, messages)),
      )
      if (flags.json) printJson({ channel: name, retried: messages })
      else print(`Moved ${count(messages)} back to the inbox of ${name}.`)
    })
}

function dropCommand(): Command {
  return addAgentFlags(
    new Command('drop')
      .description('permanently delete messages that were put aside')
      .addArgument(channelArgument())
      .addArgument(messageArgument())
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      examples('static channel poison drop acme/support/routing 019c7f1e2a40b3d5c8e6f71a2b9d4c50 --as billing'),
    )
    .action(async (name: string, messages: readonly string[], flags: DropFlags) => {
      if (!flags.yes) await confirm(`${count(messages)} of ${name} will be deleted, permanently. Continue?`)
      await withAgent(flags, { share: false }, (agent) =>
        withProgress('Deleting messages', agent.call('poisonDrop', name, messages)),
      )
      if (flags.json) printJson({ channel: name, dropped: messages })
      else print(`Deleted ${count(messages)}.`)
    })
}

function messageArgument(): Argument {
  const parse = (word: string, before: readonly string[] = []): readonly string[] => {
    if (/^[0-9a-f]{32}(@[1-9]\d*)?$/.test(word)) return [...before, word]
    throw new InvalidArgumentError('Expected a message id of 32 hexadecimal digits, as `list` shows it.')
  }
  const text = 'the id of a message, as `list` shows it; or id@index, if several have the same id'
  return new Argument('<message...>', text).argParser(parse)
}

function count(messages: readonly string[]): string {
  return messages.length === 1 ? '1 message' : `${messages.length} messages`
}
