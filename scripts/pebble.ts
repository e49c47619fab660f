/** Pebble, the ACME server for tests of Let's Encrypt: installed, or built by Go below `.cache`. */
import { existsSync, globSync, mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { run, say } from './step.ts'

const MODULE = 'github.com/letsencrypt/pebble/v2/cmd'
const VERSION = 'v2.10.1'
const PROGRAMS = ['pebble', 'pebble-challtestsrv']

/** The folder that has its two programs; undefined if there is none and Go cannot build them. */
export async function findPebble(): Promise<string | undefined> {
  const built = resolve(import.meta.dirname, '../.cache/pebble')
  const folders = [...(process.env['PATH'] ?? '').split(':'), join(built, 'bin')]
  const found = (): string | undefined =>
    folders.find((folder) => PROGRAMS.every((name) => existsSync(join(folder, name))))
  const present = found()
  if (present !== undefined) return present
  const [go] = globSync([...folders.map((folder) => join(folder, 'go')), '/usr/local/go/bin/go'])
  if (go === undefined) return undefined
  say('Building Pebble with Go (once)')
  mkdirSync(built, { recursive: true })
  const env = { GOBIN: join(built, 'bin'), GOPATH: join(built, 'path'), GOCACHE: join(built, 'cache') }
  const words = PROGRAMS.map((name) => `${MODULE}/${name}@${VERSION}`)
  return (await run(go, ['install', '-modcacherw', ...words], env)) === 0 ? found() : undefined
}
