/** `static agent slots`: the key slots of an agent; each of them unlocks its database. */
import { resolve } from 'node:path'
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import type { KeySlot, KeySource } from '@static/sdk'
import { addKeyFlags, type KeyFlags, keySourceOf } from '../../agent/key.ts'
import { addPlaceFlags, agentPlace, type PlaceFlags } from '../../agent/place.ts'
import { askSecret, confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, table, commandLine } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { secretOf } from '../../terminal/secrets.ts'

interface Flags extends PlaceFlags, KeyFlags {
  readonly json?: boolean
}

interface NewPassphraseFlags extends Flags {
  readonly newPassphraseFile?: string
  readonly newPassphraseStdin?: boolean
}

interface AddFlags extends NewPassphraseFlags {
  readonly newKeyFile?: string
}

interface RemoveFlags extends Flags {
  readonly yes?: boolean
}

/** Slot types that the CLI can add; a keyring slot belongs to the program that has the keyring. */
const TYPES = ['file', 'passphrase'] as const

export function slotsCommand(): Command {
  return new Command('slots')
    .description('list, add and remove the keys that unlock an agent')
    .addCommand(listCommand())
    .addCommand(addCommand())
    .addCommand(removeCommand())
    .addCommand(changePassphraseCommand())
    .addHelpText(
      'after',
      `
The database of an agent is encrypted. Any one of its key slots unlocks it: a key file (a new agent has agent.key in its
directory) or a passphrase. Stop the agent before you change its slots. A removed slot still unlocks older copies of the
agent's directory.
${examples(
  'static agent slots list',
  'static agent slots add passphrase',
  'static agent slots remove 5f0c8e2ab3d94710',
  'static agent slots change-passphrase',
)}`,
    )
}

function listCommand(): Command {
  return addPlaceFlags(new Command('list').description('list the key slots of an agent'))
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static agent slots list', 'static agent slots list --as billing --json'))
    .action(list)
}

function addCommand(): Command {
  const command = new Command('add')
    .description('add a key file or passphrase that unlocks the agent')
    .addArgument(new Argument('<type>', 'type of key').choices(TYPES))
    .option('--new-key-file <file>', "key file, created if missing (default: agent.key in the agent's directory)")
  return addPlaceFlags(addKeyFlags(addNewPassphraseFlags(command)))
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examples('static agent slots add passphrase', 'static agent slots add file --new-key-file /media/usb/agent.key'),
    )
    .action(add)
}

function addNewPassphraseFlags(command: Command): Command {
  return command
    .option('--new-passphrase-stdin', 'read the new passphrase from stdin (default on a terminal: hidden prompt)')
    .option('--new-passphrase-file <file>', 'read the new passphrase from a file')
}

function removeCommand(): Command {
  const command = new Command('remove')
    .description('remove a slot; requires the key of another slot')
    .addArgument(new Argument('<id>', 'slot id, from `static agent slots list`'))
    .option('--yes', 'skip the confirmation prompt')
  return addPlaceFlags(addKeyFlags(command))
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static agent slots remove 5f0c8e2ab3d94710'))
    .action(remove)
}

function changePassphraseCommand(): Command {
  const command = new Command('change-passphrase')
    .description('replace the passphrase')
    .option(
      '--passphrase-file <file>',
      'read the current passphrase from a file (default on a terminal: hidden prompt)',
    )
  return addPlaceFlags(addNewPassphraseFlags(command))
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static agent slots change-passphrase'))
    .action(changePassphrase)
}

async function list(flags: Flags): Promise<void> {
  const { listKeySlots } = await import('@static/sdk/account')
  const slots = listKeySlots(agentPlace(flags).dataDir)
  if (flags.json) printJson({ slots })
  else
    print(
      table(
        ['ID', 'TYPE'],
        slots.map(({ id, type }) => [id, type]),
      ),
    )
}

async function add(type: (typeof TYPES)[number], flags: AddFlags): Promise<void> {
  const { addKeySlot, listKeySlots } = await import('@static/sdk/account')
  const { dataDir } = agentPlace(flags)
  checkFlags(type, flags)
  const by = await keySourceOf(flags, listKeySlots(dataDir))
  const added = type === 'passphrase' ? await newPassphrase(flags) : fileSource(flags.newKeyFile)
  const slot = await withProgress('Adding the slot', addKeySlot(dataDir, by, added))
  if (flags.json) printJson(slot)
  else print(`Added key slot ${slot.id} (${slot.type}).`)
}

async function remove(id: string, flags: RemoveFlags): Promise<void> {
  const { listKeySlots, removeKeySlot } = await import('@static/sdk/account')
  const { dataDir } = agentPlace(flags)
  const slots = listKeySlots(dataDir)
  const slot = slots.find((known) => known.id === id)
  const rest = slots.filter((known) => known !== slot)
  // If the slot is unknown or the last one, the SDK refuses, so there is no need to ask first.
  const isPossible = slot !== undefined && rest.length > 0
  if (isPossible && !flags.yes) await confirm(`Remove key slot ${id} (${slot.type})?`)
  const by: KeySource = isPossible ? await keySourceOf(flags, rest) : { type: 'file' }
  await withProgress('Removing the slot', removeKeySlot(dataDir, by, id))
  if (flags.json) printJson({ id, removed: true })
  else print(`Removed key slot ${id}.`)
  note(leftover(slot))
}

async function changePassphrase(flags: NewPassphraseFlags): Promise<void> {
  const { listKeySlots, replaceKeySlot } = await import('@static/sdk/account')
  const { dataDir } = agentPlace(flags)
  if (!listKeySlots(dataDir).some(({ type }) => type === 'passphrase')) {
    throw StaticError.of(
      'invalid_request',
      `The agent in ${dataDir} has no passphrase. Add one with \`${commandLine('agent slots add passphrase')}\`.`,
    )
  }
  const by = passphraseSource(
    await secretOf({
      what: 'current passphrase',
      file: flags.passphraseFile,
      instead: '--passphrase-file',
      askOnly: true,
    }),
  )
  const next = await newPassphrase(flags)
  const slot = await withProgress('Changing the passphrase', replaceKeySlot(dataDir, by, next))
  if (flags.json) printJson(slot)
  else print(`Changed the passphrase; its key slot is now ${slot.id}.`)
  note('the old passphrase still unlocks older copies of the directory.')
}

/** A new passphrase. On a terminal it is prompted for twice, because the input is hidden. */
async function newPassphrase({
  newPassphraseFile: file,
  newPassphraseStdin: stdin,
}: NewPassphraseFlags): Promise<KeySource> {
  const instead = '--new-passphrase-stdin or --new-passphrase-file'
  const passphrase = await secretOf({ what: 'new passphrase', file, stdin, instead, askOnly: true })
  const isTyped = file === undefined && !stdin
  if (isTyped && (await askSecret('New passphrase again:')) !== passphrase) {
    throw StaticError.of('invalid_request', 'The two passphrases do not match. Nothing was changed.')
  }
  return passphraseSource(passphrase)
}

function passphraseSource(passphrase: string): KeySource {
  return { type: 'passphrase', passphrase }
}

function fileSource(path: string | undefined): KeySource {
  return path === undefined ? { type: 'file' } : { type: 'file', path: resolve(path) }
}

function checkFlags(type: (typeof TYPES)[number], flags: AddFlags): void {
  const { newKeyFile, newPassphraseFile, newPassphraseStdin } = flags
  if (type === 'passphrase' && newKeyFile !== undefined) {
    throw StaticError.of(
      'invalid_request',
      '--new-key-file cannot be used with a passphrase slot. Remove the flag, or add a `file` slot.',
    )
  }
  if (type === 'file' && (newPassphraseFile !== undefined || newPassphraseStdin)) {
    throw StaticError.of(
      'invalid_request',
      '--new-passphrase-file and --new-passphrase-stdin cannot be used with a file slot. Remove the flag, or add a `passphrase` slot.',
    )
  }
}

function leftover(slot: KeySlot | undefined): string {
  const copies = 'the removed key still unlocks older copies of the directory'
  return slot?.type === 'file' ? `${copies}; delete the key file if nothing else uses it.` : `${copies}.`
}
