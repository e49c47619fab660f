/** What opens the agent that a command means: a key file or a passphrase, given by flags or asked for. */
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import type { KeySlot, KeySource } from '@static/sdk'
import { secretOf } from '../terminal/secrets.ts'

/** Flags of every command that opens an agent. */
export interface KeyFlags {
  readonly keyFile?: string
  readonly passphraseFile?: string
}

/** Adds the flags to a command. */
export function addKeyFlags(command: Command): Command {
  return command
    .option('--key-file <file>', "open the agent by this key file (default: agent.key in the agent's directory)")
    .option('--passphrase-file <file>', 'open the agent by the passphrase in this file; on a terminal it is asked for')
}

/**
 * What the flags say, or what opens one of the slots: the key file in the agent's directory if one of them is for a key
 * file, else a passphrase, which is asked for.
 *
 * @throws {StaticError} `invalid_request` when two are given, or one is needed that nobody can be asked for
 */
export async function keySourceOf(flags: KeyFlags, slots: readonly KeySlot[]): Promise<KeySource> {
  const { keyFile, passphraseFile } = flags
  if (keyFile !== undefined && passphraseFile !== undefined) {
    throw StaticError.of('invalid_request', 'Both --key-file and --passphrase-file are given. Give one of them.')
  }
  if (keyFile !== undefined) return { type: 'file', path: keyFile }
  const types = new Set(slots.map(({ type }) => type))
  const isAsked = !types.has('file') && types.has('passphrase')
  if (passphraseFile === undefined && !isAsked) return { type: 'file' }
  const passphrase = await secretOf({
    what: 'passphrase',
    file: passphraseFile,
    instead: '--passphrase-file',
    askOnly: true,
  })
  return { type: 'passphrase', passphrase }
}

/** The slots of an agent; none if it does not exist yet. */
export async function slotsOf(directory: string): Promise<readonly KeySlot[]> {
  const { listKeySlots } = await import('@static/sdk')
  try {
    return listKeySlots(directory)
  } catch (error) {
    if (error instanceof StaticError && error.code === 'not_found') return []
    throw error
  }
}
