/** `static channel files list|save|drop`: files that members have sent and this agent has not saved. */
import { resolve, sep } from 'node:path'
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import type { FileSummary } from '../../agent/file-actions.ts'
import { mediaType, shownFileName } from '../../agent/file-names.ts'
import { addAgentFlags, type AgentFlags, withAgent } from '../../agent/open.ts'
import { byteText, followTransfer } from '../../agent/transfer.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printable, printJson, table } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument } from './arguments.ts'

interface SaveFlags extends AgentFlags {
  readonly to: string
}

interface DropFlags extends AgentFlags {
  readonly everyone?: boolean
  readonly yes?: boolean
}

const FILE_ID = /^[0-9a-f]{32}$/
const ID = /^[0-9a-f]{32}(@[1-9]\d*)?$/

export function filesCommand(): Command {
  return new Command('files')
    .description('list, save or drop files that members have sent')
    .addCommand(listCommand())
    .addCommand(saveCommand())
    .addCommand(dropCommand())
}

function listCommand(): Command {
  return addAgentFlags(
    new Command('list')
      .description('list the files that were neither saved nor dropped')
      .addArgument(channelArgument()),
  )
    .addHelpText('after', examples('static channel files list acme/support/routing'))
    .action(async (name: string, flags: AgentFlags) => {
      const files = await withAgent(flags, { share: false }, (agent) =>
        withProgress('Reading files', agent.call('files', name)),
      )
      if (flags.json) return printJson({ channel: name, files })
      if (files.length === 0) return note('there is no file to save.')
      const rows = files.map(({ id, name: own, size, type, sender, time }) => [
        id,
        shownFileName(own),
        byteText(size),
        mediaType(type) ?? '',
        sender.name,
        time,
      ])
      print(table(['FILE', 'NAME', 'SIZE', 'TYPE', 'SENDER', 'TIME'], rows))
    })
}

function saveCommand(): Command {
  return addAgentFlags(
    new Command('save')
      .description('save files, each checked against the signature of its sender')
      .addArgument(channelArgument())
      .addArgument(fileArgument())
      .option('--to <path>', 'a directory, or for one file a new path', '.'),
  )
    .addHelpText(
      'after',
      `
A file is saved under a safe form of its name, with a number if that is taken (report-2.pdf), readable only by you and
never executable. An interrupted command continues when it is run again with the same --to.
${examples('static channel files save acme/support/routing report.pdf', 'static channel files save acme/support/routing 019c7f1e2a40b3d5c8e6f71a2b9d4c50 --to logs/')}`,
    )
    .action(async (name: string, words: readonly string[], flags: SaveFlags) => {
      // A directory is recognized by the slash at its end, even if it does not exist.
      const to = resolve(flags.to) + (/[/\\]$/.test(flags.to) ? sep : '')
      const saved = await withAgent(flags, { share: false }, async (agent) => {
        const files = await agent.call('files', name)
        const paths: { readonly id: string; readonly path: string }[] = []
        for (const file of words.map((word) => find(files, word))) {
          const id = await agent.call('startSave', name, file.index, to)
          const done = await followTransfer(agent, id, { doing: `Saving ${shownFileName(file.safe_name)}` })
          const path = 'path' in done ? done.path : to
          paths.push({ id: file.id, path })
          if (!flags.json) print(`Saved ${shownFileName(file.name)} (${byteText(file.size)}) as ${path}.`)
        }
        return paths
      })
      if (flags.json) printJson({ channel: name, saved })
    })
}

function dropCommand(): Command {
  return addAgentFlags(
    new Command('drop')
      .description('drop files: this agent does not want them')
      .addArgument(channelArgument())
      .addArgument(fileArgument())
      .option('--everyone', 'delete files for all members: those that this agent has sent or, as the owner, any; by id')
      .option('--yes', 'skip the confirmation prompt'),
  )
    .addHelpText(
      'after',
      examples(
        'static channel files drop acme/support/routing report.pdf',
        'static channel files drop acme/support/routing 019c7f1e2a40b3d5c8e6f71a2b9d4c50 --everyone',
      ),
    )
    .action(async (name: string, words: readonly string[], flags: DropFlags) => {
      const what = words.length === 1 ? '1 file' : `${words.length} files`
      const who = flags.everyone ? 'anyone who has not' : 'this agent'
      if (!flags.yes) await confirm(`${what} of ${name} can no longer be saved by ${who}. Continue?`)
      const dropped = await withAgent(flags, { share: false }, async (agent) => {
        if (flags.everyone) {
          const wrong = words.find((word) => !FILE_ID.test(word))
          if (wrong !== undefined)
            throw StaticError.of(
              'invalid_request',
              `--everyone takes ids, not ${JSON.stringify(printable(wrong))}. \`send --file\` has printed them.`,
            )
          for (const id of words) await withProgress('Deleting', agent.call('deleteFile', name, id))
          return words
        }
        const files = await agent.call('files', name)
        const found = words.map((word) => find(files, word))
        for (const { index } of found) await withProgress('Dropping', agent.call('dropFile', name, index))
        return found.map(({ id }) => id)
      })
      if (flags.json) printJson({ channel: name, dropped })
      else print(`Dropped ${what}.`)
    })
}

function fileArgument(): Argument {
  return new Argument('<file...>', 'the id of a file, as `list` shows it, or its name')
}

/** The file with this id (`id@index` if several have it) or name. */
function find(files: readonly FileSummary[], word: string): FileSummary {
  const isId = ID.test(word)
  const found = files.filter((file) =>
    isId ? word === file.id || word === `${file.id}@${file.index}` : word === file.name || word === file.safe_name,
  )
  const [file, other] = found
  if (file && !other) return file
  const shown = JSON.stringify(printable(word))
  if (!file) {
    throw StaticError.of(
      'not_found',
      `There is no file ${shown} to save. \`static channel files list\` shows those that are.`,
    )
  }
  const ids = found.map(({ id, index }) => (isId ? `${id}@${index}` : id)).join(', ')
  throw StaticError.of('invalid_request', `${found.length} files are called ${shown}. Pass one of their ids: ${ids}.`)
}
