/** Brings SLIM's native library: its locked package from PyPI and the C loops that call it, both into `.cache`. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ensureDebian } from '../../../scripts/debian.ts'
import { run, say } from '../../../scripts/step.ts'

const HOME = resolve(import.meta.dirname, '../../../.cache/peers/slim-native')
const PACKAGES = join(HOME, 'packages')
const LOCK = join(import.meta.dirname, 'requirements.txt')

/** The paths of the peer's parts. */
export interface Native {
  readonly python: string
  readonly packages: string
  /** The C loops. */
  readonly loops: string
}

/** Installs what is missing. Undefined if PyPI cannot be reached or has no package for this machine. */
export async function installNative(): Promise<Native | undefined> {
  const purpose = 'The bench beside SLIM'
  const python = await ensureDebian('python3', '/usr/bin/python3', purpose)
  await ensureDebian('python3-pip', '/usr/lib/python3/dist-packages/pip/__init__.py', purpose)
  if (!(await installPackage(python))) return undefined
  const loops = join(HOME, 'loops.so')
  const compiler = await ensureDebian('gcc', '/usr/bin/cc', purpose)
  const source = join(import.meta.dirname, 'loops.c')
  const words = ['-shared', '-fPIC', '-O2', '-Wall', '-o', loops, source, '-ldl', '-lpthread']
  if ((await run(compiler, words)) !== 0) return undefined
  return { python, packages: PACKAGES, loops }
}

/** Installs with pip, unless the last installation used this same lock file. */
async function installPackage(python: string): Promise<boolean> {
  const stamp = join(HOME, 'stamp')
  const lock = readFileSync(LOCK, 'utf8')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return true
  mkdirSync(HOME, { recursive: true })
  say('Installing the locked package of SLIM from PyPI (once)')
  const flags = ['--quiet', '--no-deps', '--only-binary=:all:', '--require-hashes', '--disable-pip-version-check']
  const words = ['-m', 'pip', 'install', ...flags, '--retries=1', '--upgrade', '--target', PACKAGES, '-r', LOCK]
  if ((await run(python, words)) !== 0) return false
  writeFileSync(stamp, lock)
  return true
}
