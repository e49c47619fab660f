/** Bun and Deno for their proof: from npm by a lock file, below `.cache`. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fail, run, say } from './step.ts'

const root = resolve(import.meta.dirname, '..')
const LOCK = 'package-lock.json'

/** Returns the folder that they are installed in. */
export async function ensureRuntimes(): Promise<string> {
  const source = join(root, 'lab/runtimes/npm')
  const home = join(root, '.cache/runtimes')
  const lockOf = (folder: string): string => readFileSync(join(folder, LOCK), 'utf8')
  if (existsSync(join(home, 'node_modules')) && lockOf(home) === lockOf(source)) return home
  say('Downloading Bun and Deno from npm (once)')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(dirname(home), { recursive: true })
  for (const name of ['package.json', LOCK]) cpSync(join(source, name), join(home, name))
  const words = ['ci', '--prefix', home, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  if ((await run('npm', words)) !== 0) fail('Bun and Deno could not be downloaded; see the output above.')
  return home
}
