// Installs what a task needs: the locked Node, if this one is too old, and the locked packages. There are two levels:
// `run` is what `npm start` needs, `test` is everything. Plain JavaScript without dependencies, like run.mjs.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const OLDEST_NODE = 24
/** The checkout. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
/** Inside the checkout, so that nothing is written elsewhere. */
const cache = join(root, '.cache/npm')
/** The Node of scripts/node, once it is downloaded. */
export const lockedNode = join(root, `scripts/node/node_modules/node-${process.platform}-${process.arch}/bin/node`)
/** Contains a hash of what was installed, and the level unless it was everything. */
const stamp = join(root, 'node_modules/.static-stamp')
/** Folders of packages that contain machine code for every platform at once, 90 MB of it for others. */
const PREBUILT = ['@currentspace/http3', 'better-sqlite3-multiple-ciphers/prebuilds', 'sodium-native/prebuilds']

/** The running Node if it is new enough, otherwise the one locked in scripts/node, which may not be there yet. */
export function findNode() {
  return Number(process.versions.node.split('.')[0]) >= OLDEST_NODE ? process.execPath : lockedNode
}

/** Downloads the locked Node. */
export function downloadNode(binary, level) {
  say('Downloading Node 26 from npm into scripts/node (once)')
  npm(process.execPath, join(root, 'scripts/node'), level, ['ci'])
  if (!existsSync(binary)) {
    fail(
      `npm has no Node 26 for ${process.platform} ${process.arch}. Install Node ${OLDEST_NODE} or newer and try again.`,
    )
  }
  // 70 MB of headers for compilers; nothing is compiled here.
  rmSync(join(dirname(binary), '../include'), { recursive: true, force: true })
}

/** Whether the locked packages of a level were installed from this exact lock file. */
export function hasPackages(binary, level) {
  const found = foundStamp()
  const everything = stampOf(binary)
  return found === everything || (found === `${everything} run` && level === 'run')
}

function foundStamp() {
  return existsSync(stamp) ? readFileSync(stamp, 'utf8') : ''
}

function stampOf(binary) {
  return createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .update(binary)
    .digest('hex')
}

/** Installs the locked packages of a level. */
export function installPackages(binary, level) {
  const everything = stampOf(binary)
  const running = `${everything} run`
  const found = foundStamp()
  // If this is interrupted, start over.
  rmSync(stamp, { force: true })
  if (level === 'run') {
    say('Installing the locked packages that it runs with (once)')
    npm(binary, root, level, ['ci', '--omit=dev'])
  } else if (found === running) {
    say('Installing the rest of the locked packages (once)')
    // Not `npm ci`: it would delete the packages of a server that runs from this checkout.
    npm(binary, root, level, ['install', '--no-save', '--include=dev'])
  } else {
    say('Installing the locked packages (once)')
    npm(binary, root, level, ['ci', '--include=dev'])
  }
  for (const folder of PREBUILT) removeForeign(join(root, 'node_modules', folder))
  // Programs of the checkout, such as `npx static`, then use the same Node.
  const link = join(root, 'node_modules/.bin/node')
  mkdirSync(dirname(link), { recursive: true })
  rmSync(link, { force: true })
  symlinkSync(binary, link)
  writeFileSync(stamp, level === 'run' ? running : everything)
}

/** Deletes machine code for other platforms from a folder. */
function removeForeign(folder) {
  if (!existsSync(folder)) return
  const names = readdirSync(folder)
  const own = ownBinaries(names)
  for (const name of names) if (!own.includes(name)) rmSync(join(folder, name), { recursive: true, force: true })
}

/** The names without those of other platforms, or all of them if none is of this one. */
export function ownBinaries(names) {
  const systemOf = (name) => /(?:^|\.)([a-z]+\d*)-(arm|arm64|ia32|x64)\b/.exec(name)
  // Linux with musl calls itself linux, as well.
  const isOwn = ([, system, machine]) => system.startsWith(process.platform) && machine === process.arch
  const systems = names.map(systemOf)
  if (!systems.some((system) => system && isOwn(system))) return names
  return names.filter((_, at) => !systems[at] || isOwn(systems[at]))
}

/** Runs npm in a folder. Only tests use its cache again, when they install the packed packages. */
function npm(binary, folder, level, words) {
  const program = process.env.npm_execpath
  if (!program) fail('npm_execpath is not set. Run this through npm: `npm start`, `npm test` or `npm run …`.')
  mkdirSync(cache, { recursive: true })
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const done = spawnSync(binary, [program, ...words, '--prefix', folder, '--cache', cache, ...flags], {
    cwd: folder,
    // stdout is the task's, with one line for `npm start -- --json`.
    stdio: ['ignore', 2, 2],
  })
  if (level === 'run') rmSync(cache, { recursive: true, force: true })
  if (done.status !== 0) fail(`\`npm ${words[0]}\` failed; see its output above.`)
}

export function say(text) {
  process.stderr.write(`→ ${text}\n`)
}

export function fail(text) {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}
