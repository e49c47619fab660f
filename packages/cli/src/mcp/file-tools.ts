/**
 * The tools for files. A model names files and gets paths; their bytes never pass it. What was begun goes on between two
 * calls, because hosts wait for a minute and files may take longer.
 */
import { basename, join, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { makeDirectories } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { totalOf } from '../agent/directory-size.ts'
import type { TransferState } from '../agent/file-actions.ts'
import { byteText } from '../agent/transfer.ts'
import { inputOf } from './schema.ts'
import type { Session } from './session.ts'
import { CHANNEL, channelOf, FLAG, INTEGER, LONGEST_WAIT, TEXT, type Tool } from './tool.ts'

const DIRECTORY = 'received-files'
const MIB = 1024 * 1024
/** What a member can make a model save on this machine. */
const MAX_FILE = 64 * MIB
const MAX_TOTAL = 1024 * MIB
const MS = 1000
const LOOK_S = 5
const ID = /^[0-9a-f]{32}$/

export const saveFile: Tool = {
  name: 'save_file',
  description: `Save the \`attachment\` of a message on this machine; returns its \`path\`. At most ${byteText(MAX_FILE)}. \`done\`: false means that it is still coming: call again. Its content is the words of another agent, like a text.`,
  inputSchema: inputOf({ channel: CHANNEL, id: TEXT }, 'channel', 'id'),
  outputSchema: {
    type: 'object',
    properties: { done: FLAG, path: TEXT, bytes: INTEGER, size: INTEGER },
    required: ['done'],
  },
  annotations: { destructiveHint: false },
  run: async (args, { session, dataDir, signal }) => {
    const channel = channelOf(args)
    const id = String(args['id'])
    if (!ID.test(id))
      throw StaticError.of('invalid_request', '`id` must be that of an `attachment`: 32 hexadecimal digits.')
    const state = await transferred(session, `save ${channel} ${id}`, signal, async () => {
      const file = (await session.use((agent) => agent.call('files', channel))).find((each) => each.id === id)
      if (!file)
        throw StaticError.of(
          'file_expired',
          `There is no file ${id} to save: it was saved or dropped before, or is gone.`,
        )
      const directory = join(dataDir, DIRECTORY)
      makeDirectories(directory)
      checkRoom(directory, file.size)
      return await session.use((agent) => agent.call('startSave', channel, file.index, directory))
    })
    const { bytes, size, done } = state
    return done && 'path' in done ? { done: true, path: done.path, size } : { done: false, bytes, size }
  },
  links: ({ path, size }) =>
    typeof path === 'string' ? [{ uri: pathToFileURL(path).href, name: basename(path), size }] : [],
}

/** `root` is the directory of `--send-from`. */
export function sendFileFrom(root: string): Tool {
  return {
    name: 'send_file',
    description: `Send a file below ${root} to a channel: \`path\` is relative to it, \`text\` goes beside it. Each MiB costs a message. \`done\`: false means that it is still on its way: call again with the same arguments. Send only what your user wants these members to have.`,
    inputSchema: inputOf({ channel: CHANNEL, path: TEXT, text: TEXT, type: TEXT }, 'channel', 'path'),
    outputSchema: {
      type: 'object',
      properties: { done: FLAG, index: INTEGER, id: TEXT, file: TEXT, bytes: INTEGER, size: INTEGER },
      required: ['done'],
    },
    annotations: { destructiveHint: false },
    run: async (args, { session, signal }) => {
      const channel = channelOf(args)
      const [path, text, type] = [given(root, args['path']), String(args['text'] ?? ''), String(args['type'] ?? '')]
      const name = JSON.stringify(['send', channel, path, text, type])
      const { bytes, size, done } = await transferred(session, name, signal, () =>
        session.use((agent) => agent.call('startSendFrom', channel, root, path, type, text)),
      )
      if (!done || !('file_id' in done)) return { done: false, bytes, size }
      return { done: true, index: done.index, id: done.message_id, file: done.file_id, size }
    },
  }
}

/** Models often know only the absolute path. */
function given(root: string, path: unknown): string {
  const text = String(path)
  return text.startsWith(root + sep) ? relative(root, text) : text
}

/** Begins a transfer, or goes on with the one of this name, and waits for as long as hosts do. */
async function transferred(
  session: Session,
  name: string,
  signal: AbortSignal,
  begin: () => Promise<string>,
): Promise<TransferState> {
  const known = session.transfers.get(name)
  const id = known ?? (await begin())
  session.transfers.set(name, id)
  const until = performance.now() + LONGEST_WAIT * MS
  try {
    for (let bytes = 0; ;) {
      const from = bytes
      const state = await session.use((agent) => agent.call('transfer', id, from, LOOK_S))
      if (state.done) session.transfers.delete(name)
      if (state.done || signal.aborted || performance.now() > until) return state
      bytes = state.bytes
    }
  } catch (error) {
    session.transfers.delete(name)
    // One that ended between two calls is begun again.
    if (known !== undefined && error instanceof StaticError && error.code === 'not_found')
      return await transferred(session, name, signal, begin)
    throw error
  }
}

function checkRoom(directory: string, size: number): void {
  const total = totalOf(directory)
  const limit = size > MAX_FILE ? byteText(MAX_FILE) : total + size > MAX_TOTAL ? byteText(MAX_TOTAL) : undefined
  if (limit === undefined) return
  const problem =
    size > MAX_FILE
      ? `The file has ${byteText(size)}; the limit is ${limit}.`
      : `The file has ${byteText(size)}, and ${directory} holds ${byteText(total)}; the limit is ${limit}.`
  throw StaticError.of('too_large', `${problem} Your user can save it with \`static channel files save\`.`)
}
