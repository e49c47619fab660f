/**
 * The key slots of an agent's database: any one of them opens it, as in LUKS. Adding and removing slots does not change
 * the database's key: a removed slot from an old copy of keys.json still opens the database with its own key.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { createFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { connect, databaseFile } from '../connection.ts'
import {
  ensureKeyFile,
  KEY_BYTES,
  type KeySource,
  makeKeyringKey,
  newStretching,
  readKeyFile,
  readKeyring,
  stretch,
} from './sources.ts'
import { ensurePrivateDirectory, privateFileSize } from '../private-files.ts'
import {
  encodeSlots,
  type KeySlot,
  readSlots,
  slotFile,
  type SlotHeader,
  unwrapKey,
  type WrappedSlot,
  wrapKey,
} from './slot-file.ts'

/** Trying a passphrase slot takes half a second. */
const SLOT_LIMIT = 8

const NAMES: Readonly<Record<KeySlot['type'], string>> = {
  file: 'key file',
  passphrase: 'passphrase',
  keyring: 'keyring',
}

/**
 * The key of the database in a directory. For a new directory, a key is created with one slot. The caller wipes it.
 *
 * Throws `store_key_wrong`, `store_permissions` or `store_corrupt`.
 */
export async function openDatabaseKey(directory: string, source: KeySource): Promise<Buffer> {
  // Checked first: the slots are written before the database, so a database without slots is a loss, not a first start.
  const started = (privateFileSize(databaseFile(directory)) ?? 0) > 0
  const path = slotFile(directory)
  sweepLeftovers(path)
  const slots = readSlots(directory)
  if (slots !== undefined) return (await unlock(directory, slots, source)).key
  if (started) {
    throw new StaticError(
      'store_key_wrong',
      `${path} is missing. Without it the agent's database cannot be opened. Restore it from a backup.`,
    )
  }
  const key = randomBytes(KEY_BYTES)
  const slot = await makeSlot(directory, source, key)
  if (createFile(path, encodeSlots([slot]), 0o600)) return key
  // Another process was faster; its slots are the valid ones.
  key.fill(0)
  return (await unlock(directory, readSlots(directory) ?? [], source)).key
}

/**
 * Lists the key slots of an agent's directory without opening any. The agent may be running.
 *
 * @throws {StaticError} `not_found` if there is no agent, `store_permissions`, `store_corrupt`
 */
export function listKeySlots(directory: string): readonly KeySlot[] {
  return existingSlots(resolve(directory)).map(({ id, type }) => ({ id, type }))
}

/**
 * Checks that a key opens an agent, which may be running.
 *
 * @throws {StaticError} `store_key_wrong`, `not_found` if there is no agent
 */
export async function checkKeySlot(directory: string, by: KeySource): Promise<void> {
  const place = resolve(directory)
  const { key } = await unlock(place, existingSlots(place), by)
  key.fill(0)
}

/**
 * Adds a key slot, so that `added` also opens the agent. A key file that does not exist is created. The agent must not
 * be running.
 *
 * @throws {StaticError} `store_key_wrong` if `by` does not open the agent, `store_locked` if it is running,
 *   `invalid_request` for a ninth slot or an empty passphrase, `not_found` if there is no agent
 * @example
 * await addKeySlot('./agent', { type: 'file' }, { type: 'passphrase', passphrase })
 */
export async function addKeySlot(directory: string, by: KeySource, added: KeySource): Promise<KeySlot> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  if (slots.length >= SLOT_LIMIT) {
    throw new StaticError(
      'invalid_request',
      `The agent in ${place} already has ${slots.length} key slots, the maximum. Remove one first.`,
    )
  }
  const opened = await unlock(place, slots, by)
  return await withLock(place, slots, opened.key, async () => {
    const slot = await makeSlot(place, added, opened.key)
    replaceSlots(place, [...slots, slot])
    return { id: slot.id, type: slot.type }
  })
}

/**
 * Replaces the slot that `by` opens with one for `added`, in one step. Use it to change a passphrase. See `addKeySlot`.
 *
 * @example
 * await replaceKeySlot('./agent', { type: 'passphrase', passphrase: old }, { type: 'passphrase', passphrase: next })
 */
export async function replaceKeySlot(directory: string, by: KeySource, added: KeySource): Promise<KeySlot> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  const opened = await unlock(place, slots, by)
  return await withLock(place, slots, opened.key, async () => {
    const slot = await makeSlot(place, added, opened.key)
    replaceSlots(
      place,
      slots.map((old) => (old.id === opened.id ? slot : old)),
    )
    return { id: slot.id, type: slot.type }
  })
}

/**
 * Removes a key slot. `by` must open a slot that stays, so that no one is locked out. The key file or keyring entry is
 * not deleted. The agent must not be running.
 *
 * @throws {StaticError} `store_key_wrong` if `by` opens no slot that stays, `not_found` if there is no such slot,
 *   `invalid_request` for the last one, `store_locked` if the agent is running
 */
export async function removeKeySlot(directory: string, by: KeySource, id: string): Promise<void> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  const rest = slots.filter((slot) => slot.id !== id)
  if (rest.length === slots.length) {
    const ids = slots.map((slot) => slot.id).join(', ')
    throw StaticError.of('not_found', `The agent in ${place} has no key slot ${id}. It has ${ids}.`)
  }
  if (rest.length === 0) {
    throw new StaticError(
      'invalid_request',
      `${id} is the last key slot of the agent in ${place}. Nothing else opens the agent: add another slot first.`,
    )
  }
  const opened = await unlock(place, rest, by)
  await withLock(place, slots, opened.key, () => Promise.resolve(replaceSlots(place, rest)))
}

function existingSlots(directory: string): readonly WrappedSlot[] {
  const none = (): StaticError => StaticError.of('not_found', `There is no agent in ${directory}. Check the directory.`)
  // Checked first, because checking its permissions would create it.
  if (!existsSync(directory)) throw none()
  ensurePrivateDirectory(directory)
  const slots = readSlots(directory)
  if (slots === undefined) throw none()
  return slots
}

/**
 * Changes the slots while no agent and no other change can open the database. Opening the database proves that its key,
 * which the new slots will hold, is right. Wipes the key.
 */
async function withLock<Result>(
  directory: string,
  expected: readonly WrappedSlot[],
  key: Buffer,
  change: () => Promise<Result>,
): Promise<Result> {
  try {
    const database = connect(databaseFile(directory), key)
    try {
      if (encodeSlots(existingSlots(directory)) !== encodeSlots(expected)) {
        throw new StaticError('store_locked', 'Another process changed the key slots meanwhile. Try again.')
      }
      return await change()
    } finally {
      database.close()
    }
  } finally {
    key.fill(0)
  }
}

/** Atomic: a crash leaves either the old slots or the new ones. */
function replaceSlots(directory: string, slots: readonly WrappedSlot[]): void {
  replaceFile(slotFile(directory), encodeSlots(slots), 0o600)
}

/** The database's key from the first slot that the source opens, and the id of that slot. */
async function unlock(
  directory: string,
  slots: readonly WrappedSlot[],
  source: KeySource,
): Promise<{ readonly key: Buffer; readonly id: string }> {
  let tried = false
  for (const slot of slots) {
    const slotKey = await slotKeyOf(directory, slot, source)
    if (slotKey === undefined) continue
    const key = unwrapKey(slot, slotKey)
    slotKey.fill(0)
    if (key !== undefined) return { key, id: slot.id }
    tried = true
  }
  if (tried) {
    throw new StaticError(
      'store_key_wrong',
      `This ${NAMES[source.type]} does not open the agent in ${directory}. Use one that was added to it.`,
    )
  }
  const types = [...new Set(slots.map((slot) => NAMES[slot.type]))].join(' or ')
  throw new StaticError(
    'store_key_wrong',
    `A ${NAMES[source.type]} does not open the agent in ${directory}. Use its ${types}.`,
  )
}

/** Undefined if the slot is for another type of source. */
async function slotKeyOf(directory: string, slot: SlotHeader, source: KeySource): Promise<Buffer | undefined> {
  if (slot.type === 'file' && source.type === 'file') return readKeyFile(directory, source.path)
  if (slot.type === 'keyring' && source.type === 'keyring') return await readKeyring(source.keyring, slot.id)
  if (slot.type === 'passphrase' && source.type === 'passphrase')
    return await stretch(source.passphrase, slot.stretching)
  return undefined
}

async function makeSlot(directory: string, source: KeySource, key: Uint8Array): Promise<WrappedSlot> {
  const { header, slotKey } = await newSlotKey(directory, source)
  try {
    return wrapKey(header, slotKey, key)
  } finally {
    slotKey.fill(0)
  }
}

async function newSlotKey(directory: string, source: KeySource): Promise<{ header: SlotHeader; slotKey: Buffer }> {
  const id = randomBytes(8).toString('hex')
  switch (source.type) {
    case 'file':
      return { header: { id, type: 'file' }, slotKey: ensureKeyFile(directory, source.path) }
    case 'passphrase': {
      if (source.passphrase === '')
        throw new StaticError('invalid_request', 'The passphrase is empty. Enter at least one character.')
      const stretching = newStretching()
      return { header: { id, type: 'passphrase', stretching }, slotKey: await stretch(source.passphrase, stretching) }
    }
    case 'keyring':
      return { header: { id, type: 'keyring' }, slotKey: await makeKeyringKey(source.keyring, id) }
  }
}
