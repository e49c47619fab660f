/** The key that unlocks an agent: a key file or a passphrase, from flags or a prompt. */
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import type { KeySlot, KeySource } from '@static/sdk'
import { secretOf } from '../terminal/secrets.ts'

/** Flags of every command that unlocks an agent. */
export interface KeyFlags {
  readonly keyFile?: string
  readonly passphraseFile?: string
}

export function addKeyFlags(command: Command): Command {
  return command
    .option('--key-file <file>', "unlock the agent with this key file (default: agent.key in the agent's directory)")
    .option(
      '--passphrase-file <file>',
      'unlock the agent with the passphrase in this file (default on a terminal: hidden prompt)',
    )
}

/**
 * The key from the flags, or one for the existing slots: the key file in the agent's directory if there is a slot for a
 * key file, else a passphrase, which is prompted for.
 *
 * @throws {StaticError} `invalid_request` if both flags are given, or if a prompt is needed without a terminal
 */
export async function keySourceOf(flags: KeyFlags, slots: readonly KeySlot[]): Promise<KeySource> {
  const { keyFile, passphraseFile } = flags
  if (keyFile !== undefined && passphraseFile !== undefined) {
    throw StaticError.of('invalid_request', 'Both --key-file and --passphrase-file are given. Pass only one of them.')
  }
  if (keyFile !== undefined) return { type: 'file', path: keyFile }
  const types = new Set(slots.map(({ type }) => type))
  const needsPassphrase = !types.has('file') && types.has('passphrase')
  if (passphraseFile === undefined && !needsPassphrase) return { type: 'file' }
  const passphrase = await secretOf({
    what: 'passphrase',
    file: passphraseFile,
    instead: '--passphrase-file',
    askOnly: true,
  })
  return { type: 'passphrase', passphrase }
}

/** The key slots of an agent; empty if it does not exist yet. */
export async function slotsOf(directory: string): Promise<readonly KeySlot[]> {
  const { listKeySlots } = await import('@static/sdk/account')
  try {
    return listKeySlots(directory)
  } catch (error) {
    if (error instanceof StaticError && error.code === 'not_found') return []
    throw error
  }
}
