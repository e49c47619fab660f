/**
 * Opens a file below a directory, for a caller who may name only what is there. The file is opened once and what was
 * opened is checked: no symbolic link, `..` or absolute path leads out, and a file that is exchanged meanwhile is
 * refused. A program that can make hard links in the directory can bring in files from elsewhere, as it can by a copy.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, realpath } from 'node:fs/promises'
import { isAbsolute, join, sep } from 'node:path'
import { StaticError } from '@static/protocol'

/** Opening a pipe would wait for its other end. */
const FLAGS: number = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

/** @throws {StaticError} `not_allowed` for what is not below the directory, `invalid_request` for what is no file */
export async function openBelow(
  root: string,
  path: string,
): Promise<{ readonly file: FileHandle; readonly size: number }> {
  const names = path.split(/[/\\]/)
  if (isAbsolute(path) || names.some((name) => name === '..' || name === '' || name === '.') || path.includes('\0')) {
    throw outside(path)
  }
  const above = await realpath(root)
  const wanted = join(above, ...names)
  const file = await open(wanted, FLAGS).catch((error: unknown) => {
    throw refusalOf(error, path)
  })
  try {
    const opened = await file.stat({ bigint: true })
    if (!opened.isFile()) throw StaticError.of('invalid_request', `${shown(path)} is not a regular file.`)
    // Links in the directories above it.
    const real = await realpath(wanted)
    const there = await lstat(real, { bigint: true })
    const isSame = there.dev === opened.dev && there.ino === opened.ino
    if (!real.startsWith(above + sep) || real !== wanted || !isSame) throw outside(path)
    return { file, size: Number(opened.size) }
  } catch (error) {
    await file.close()
    throw refusalOf(error, path)
  }
}

function refusalOf(error: unknown, path: string): unknown {
  if (error instanceof StaticError) return error
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ELOOP' || code === 'EMLINK') return outside(path)
  if (code === 'ENOENT' || code === 'ENOTDIR') return StaticError.of('not_found', `There is no file ${shown(path)}.`)
  return StaticError.of('invalid_request', `${shown(path)} cannot be read (${code}).`, { cause: error })
}

function outside(path: string): StaticError {
  return StaticError.of(
    'not_allowed',
    `${shown(path)} is not allowed. Only files below the directory of --send-from can be sent: pass a path relative to it, without links or "..".`,
  )
}

function shown(path: string): string {
  return JSON.stringify(path.slice(0, 200))
}
