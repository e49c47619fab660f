// Runs on a Node that is too old for the rest, so it is written for Node 12. It starts the Node that was installed with
// the checkout, or says in one sentence what is needed.
import { spawn } from 'node:child_process'
import { lstatSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isatty } from 'node:tty'
import { fileURLToPath } from 'node:url'

/** Runs this command with the checkout's own Node, unless someone else could have replaced that program. */
export function handOver(oldest) {
  const main = join(dirname(realpathSync(fileURLToPath(import.meta.url))), 'main.js')
  // The link that scripts/install.mjs creates. Installed packages do not have it.
  const link = join(main, '../../../../node_modules/.bin/node')
  const needs = `static needs Node ${oldest} or newer, and this is Node ${process.versions.node} (${process.execPath})`
  const node = nodeBehind(link)
  if (node === undefined || node === realpathSync(process.execPath))
    return fail(`${needs}: install a newer one and put it first in your PATH.`)
  const fault = faultOf(dirname(link)) || faultOf(node)
  if (fault === undefined) return run(node, main)
  fail(`${needs}; the Node of this checkout is not used, because ${fault}, or put a newer one first in your PATH.`)
}

/** The program that a link points to; undefined if there is none. */
function nodeBehind(link) {
  try {
    return realpathSync(link)
  } catch {
    return undefined
  }
}

/** The users who can change the target of a real path: the owner or writers of the file, or of a directory above. */
function faultOf(path, isLast = true) {
  const parent = dirname(path)
  const above = parent === path ? undefined : faultOf(parent, false)
  if (above !== undefined) return above
  const { uid, mode } = lstatSync(path)
  // Windows has no file owners to check.
  const self = process.geteuid === undefined ? -1 : process.geteuid()
  if (uid !== 0 && uid !== self) return `${path} belongs to another user: install the checkout as this user`
  // In a directory like /tmp, with the sticky bit, others cannot replace files that they do not own.
  const isShared = !isLast && (mode & 0o1000) !== 0
  if ((mode & 0o022) !== 0 && !isShared) return `others can write to ${path}: run \`chmod go-w ${path}\``
}

/** Runs the command with the same streams and signals, and exits in the same way. */
function run(node, main) {
  const child = spawn(node, [main, ...process.argv.slice(2)], {
    // The channel closes when this process is killed, and start.js then ends.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: Object.assign({}, process.env, { STATIC_OLD_NODE: process.versions.node }),
  })
  // A terminal also sends Ctrl-C to the child, and a second one would kill it.
  const isOnTerminal = [0, 1, 2].some((stream) => isatty(stream))
  process.on('SIGINT', () => isOnTerminal || child.kill('SIGINT'))
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => fail(`static cannot start ${node}: ${error.message}.`))
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

function fail(sentence) {
  process.stderr.write(`${sentence}\n`)
  process.exitCode = 1
}
