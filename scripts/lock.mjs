// A lock on setting a checkout up, for processes that may be killed at any moment. Plain JavaScript, like install.mjs.
//
// The process that links the file with the next number holds the lock; the content names that process. The file with the
// highest number is never deleted, so no process can take a lock that another one holds or has taken meanwhile.
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const LOOK_MS = 200

/** Waits for the lock, and returns what releases it. `onWait` gets the id of the process that holds it, once. */
export function takeLock(folder, onWait) {
  mkdirSync(folder, { recursive: true })
  const own = join(folder, `of-${process.pid}`)
  // A new file: a process that was killed may have left one, linked to a lock.
  rmSync(own, { force: true })
  writeFileSync(own, nameOf(process.pid))
  for (let isTold = false; ;) {
    const last = newest(folder)
    const holder = last === 0 ? undefined : holderOf(join(folder, `${last}`))
    if (holder !== undefined) {
      if (!isTold) onWait(holder)
      isTold = true
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_MS)
    } else if (link(own, join(folder, `${last + 1}`))) {
      // Its number may have been used, and its file deleted, since the look above.
      if (newest(folder) === last + 1) return release(folder, own, last + 1)
      rmSync(join(folder, `${last + 1}`))
    }
  }
}

function release(folder, own, number) {
  rmSync(own)
  for (const each of numbers(folder)) if (each < number) rmSync(join(folder, `${each}`), { force: true })
  return () => writeFileSync(join(folder, `${number}`), '')
}

function numbers(folder) {
  return readdirSync(folder)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

function newest(folder) {
  return Math.max(0, ...numbers(folder))
}

function link(from, to) {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

/** The process that holds a lock; undefined if it has released it or has ended. */
function holderOf(path) {
  const name = read(path)
  const pid = Number.parseInt(name, 10)
  return pid > 0 && nameOf(pid) === name ? pid : undefined
}

/** The id of a running process and when it started, because ids are used again; empty if there is none. */
function nameOf(pid) {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if (error.code !== 'EPERM') return ''
  }
  // After the name of its program, which may contain anything. Only Linux has the file.
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1).split(' ')
  return `${pid} ${fields[19] ?? ''}`
}

function read(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
    throw error
  }
}
