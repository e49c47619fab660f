/** Brings the peer: its locked npm packages and the shim that sets TCP_NODELAY, both into `.cache`. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ensureDebian } from '../../../scripts/debian.ts'
import { fail, run, say } from '../../../scripts/step.ts'

const CACHE = resolve(import.meta.dirname, '../../../.cache')
const HOME = join(CACHE, 'peers/slim')

/** Where its library is, once installed. */
export const LIBRARY: string = join(HOME, 'node_modules/@agntcy/slim-bindings-linux-x64-gnu/index.js')

/** Installs what is missing; returns the environment variables that its processes need. */
export async function installSlim(): Promise<{ readonly LD_PRELOAD: string }> {
  if (process.platform !== 'linux' || process.arch !== 'x64') fail('SLIM is measured on Linux x64 only.')
  mkdirSync(HOME, { recursive: true })
  await installPackages()
  return { LD_PRELOAD: await compileShim() }
}

/** Runs `npm ci`, unless the last installation used this same lock file. */
async function installPackages(): Promise<void> {
  const stamp = join(HOME, 'stamp')
  const lock = readFileSync(join(import.meta.dirname, 'package-lock.json'), 'utf8')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  const npm = process.env['npm_execpath'] ?? fail('Start this through npm: `npm run bench -- peers`.')
  say('Installing the locked packages of SLIM (once)')
  for (const name of ['package.json', 'package-lock.json']) {
    copyFileSync(join(import.meta.dirname, name), join(HOME, name))
  }
  const flags = ['--cache', join(CACHE, 'npm'), '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  if ((await run(process.execPath, [npm, 'ci', '--prefix', HOME, ...flags])) !== 0) {
    fail('npm could not install the packages of SLIM; its words are above.')
  }
  writeFileSync(stamp, lock)
}

async function compileShim(): Promise<string> {
  const purpose = 'The bench beside SLIM'
  const compiler = await ensureDebian('gcc', '/usr/bin/cc', purpose)
  await ensureDebian('libc6-dev', '/usr/include/netinet/tcp.h', purpose)
  const shim = join(HOME, 'nodelay.so')
  const source = join(import.meta.dirname, 'nodelay.c')
  const words = ['-shared', '-fPIC', '-O2', '-Wall', '-o', shim, source, '-ldl']
  if ((await run(compiler, words)) !== 0) fail('The shim that sets TCP_NODELAY could not be compiled.')
  return shim
}
