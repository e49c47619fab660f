/**
 * The slots that open an agent's database: any one of them does, as in LUKS. Adding and removing them leaves the
 * database's key as it is: whoever has a removed slot and its key, from a backup, say, can still open the database.
 */
import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { createFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { connect, databaseFile } from './connection.ts'
import {
  ensureKeyFile,
  KEY_BYTES,
  type KeySource,
  makeKeyringKey,
  newStretching,
  readKeyFile,
  readKeyring,
  stretch,
} from './key-sources.ts'
import { ensurePrivateDirectory, privateFileSize } from './private-files.ts'
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

/** Every passphrase slot costs an attempt of half a second. */
const SLOT_LIMIT = 8

/**
 * The key of the database in a directory; for a new directory one is made, with one slot. The caller wipes it.
 *
 * Throws `store_key_wrong`, `store_permissions` or `store_corrupt`.
 */
export async function openDatabaseKey(directory: string, source: KeySource): Promise<Buffer> {
  // In this order: the slots are made before the database, so one without the other is a loss, not a start.
  const started = (privateFileSize(databaseFile(directory)) ?? 0) > 0
  const path = slotFile(directory)
  sweepLeftovers(path)
  const slots = readSlots(directory)
  if (slots !== undefined) return await unlock(directory, slots, source)
  if (started) {
    throw new StaticError('store_key_wrong', `${path} is missing: without it the database beside it cannot be opened.`)
  }
  const key = randomBytes(KEY_BYTES)
  const slot = await makeSlot(directory, source, key)
  if (createFile(path, encodeSlots([slot]), 0o600)) return key
  // Another process was quicker; whatever it made is what counts.
  key.fill(0)
  return await unlock(directory, readSlots(directory) ?? [], source)
}

/** The slots of an agent's directory. Throws `not_found` if there are none. */
export function listKeySlots(directory: string): readonly KeySlot[] {
  return existingSlots(resolve(directory)).map(({ id, type }) => ({ id, type }))
}

/**
 * Adds a slot for another source. The agent must not run: `store_locked`. Throws `store_key_wrong` if `by` does not open
 * the database.
 */
export async function addKeySlot(directory: string, by: KeySource, added: KeySource): Promise<KeySlot> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  if (slots.length >= SLOT_LIMIT) {
    throw new StaticError('invalid_request', `An agent has at most ${SLOT_LIMIT} key slots: remove one first.`)
  }
  const key = await unlock(place, slots, by)
  try {
    const slot = await makeSlot(place, added, key)
    replaceSlots(place, slots, [...slots, slot], key)
    return { id: slot.id, type: slot.type }
  } finally {
    key.fill(0)
  }
}

/**
 * Removes a slot. `by` must open one that stays, so that nobody shuts himself out: otherwise `store_key_wrong`. A key
 * file, or the keyring's entry, is left to the caller to delete. Throws as `addKeySlot`.
 */
export async function removeKeySlot(directory: string, by: KeySource, id: string): Promise<void> {
  const place = resolve(directory)
  const slots = existingSlots(place)
  const rest = slots.filter((slot) => slot.id !== id)
  if (rest.length === slots.length) throw StaticError.of('not_found', `The agent has no key slot ${id}.`)
  if (rest.length === 0) throw new StaticError('invalid_request', 'The last key slot cannot be removed.')
  const key = await unlock(place, rest, by)
  try {
    replaceSlots(place, slots, rest, key)
  } finally {
    key.fill(0)
  }
}

function existingSlots(directory: string): readonly WrappedSlot[] {
  ensurePrivateDirectory(directory)
  const slots = readSlots(directory)
  if (slots === undefined) throw StaticError.of('not_found', `There is no agent in ${directory}.`)
  return slots
}

/** The database's lock keeps two changes apart, and shows that the key, which the new slots hold, is the right one. */
function replaceSlots(
  directory: string,
  expected: readonly WrappedSlot[],
  slots: readonly WrappedSlot[],
  key: Uint8Array,
): void {
  const database = connect(databaseFile(directory), key)
  try {
    if (encodeSlots(existingSlots(directory)) !== encodeSlots(expected)) {
      throw new StaticError('store_locked', 'Another process has changed the key slots in between: try again.')
    }
    replaceFile(slotFile(directory), encodeSlots(slots), 0o600)
  } finally {
    database.close()
  }
}

/** The database's key out of the first slot that the source opens. */
async function unlock(directory: string, slots: readonly WrappedSlot[], source: KeySource): Promise<Buffer> {
  let tried = false
  for (const slot of slots) {
    const slotKey = await slotKeyOf(directory, slot, source)
    if (slotKey === undefined) continue
    const key = unwrapKey(slot, slotKey)
    slotKey.fill(0)
    if (key !== undefined) return key
    tried = true
  }
  if (tried) throw new StaticError('store_key_wrong', `This ${source.type} does not open the agent in ${directory}.`)
  const types = [...new Set(slots.map((slot) => slot.type))].join(' or ')
  throw new StaticError('store_key_wrong', `The agent in ${directory} is opened by ${types}, not by ${source.type}.`)
}

/** Undefined if the slot is for a source of another type. */
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
      if (source.passphrase === '') throw new StaticError('invalid_request', 'A passphrase cannot be empty.')
      const stretching = newStretching()
      return { header: { id, type: 'passphrase', stretching }, slotKey: await stretch(source.passphrase, stretching) }
    }
    case 'keyring':
      return { header: { id, type: 'keyring' }, slotKey: await makeKeyringKey(source.keyring, id) }
  }
}
