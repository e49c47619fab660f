/** Sets up the tests: Debian packages, PostgreSQL, temporary files and environment variables. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { makeCertificates } from '@static/testkit/certificates'
import { ensureCapture, ensureDebian, tryDebian } from './debian.ts'
import { ensureNats } from './nats.ts'
import { startPostgres } from './postgres.ts'
import { bundle } from './test-bundles.ts'

/** How many test files run at once: they wait for other processes and for timers, so two more than cores are busy. */
export const AT_ONCE: number = availableParallelism() + 2
/** Most space that the temporary files need, in bytes. */
const ENOUGH_MEMORY = 4 * 1024 ** 3
/** `STATIC_` variables to unset: they refer to the agent, account or database of the person who runs the tests. */
const PERSONAL = ['API_KEY', 'API_URL', 'CA', 'DATABASE', 'DATA_DIR', 'IDENTITY', 'NATS', 'NODE', 'RELAY', 'RELAY_NAME']

/** Prepares this process and its children for tests; dispose of it when they are done. */
export async function setUpTests(options: { readonly freshCodeCache: boolean }): Promise<AsyncDisposable> {
  const root = resolve(import.meta.dirname, '..')
  const python = '/usr/lib/python3/dist-packages'
  await ensureDebian('curl', '/usr/bin/curl', 'The README test')
  await ensureDebian('python3-pip', `${python}/pip/__init__.py`, 'The Python package test')
  await ensureDebian('python3-grpcio', `${python}/grpc/__init__.py`, 'The Python test')
  await ensureDebian('python3-protobuf', `${python}/google/protobuf/__init__.py`, 'The Python test')
  await ensureDebian('python3-cryptography', `${python}/cryptography/__init__.py`, 'The Python test')
  // The whole Chromium does as well, if it is there, but needs half as much CPU time again.
  await tryDebian('chromium-headless-shell', '/usr/lib/chromium/chromium-headless-shell')
  await ensureDebian('chromium-headless-shell', '/usr/bin/chromium{,-headless-shell}', 'The browser test')
  await ensureCapture('The traffic test')
  process.env['STATIC_TEST_NATS'] = await ensureNats(join(root, '.cache'))
  const temporary = temporaryDirectory(root)
  const postgres = await startPostgres(temporary)
  for (const name of PERSONAL) delete process.env[`STATIC_${name}`]
  process.env['STATIC_TEST_POSTGRES'] = postgres.url
  process.env['TMPDIR'] = temporary
  process.env['STATIC_TEST_CERTIFICATES'] = join(temporary, 'certificates')
  await makeCertificates(process.env['STATIC_TEST_CERTIFICATES'])
  process.env['NODE_COMPILE_CACHE'] = compileCache(root, options.freshCodeCache)
  process.env['STATIC_TEST_BUNDLES'] = bundlePrograms(root, options.freshCodeCache)
  return {
    async [Symbol.asyncDispose]() {
      await postgres.stop()
      rmSync(temporary, { recursive: true, force: true })
    },
  }
}

/**
 * In memory if there is room: the tests kill processes, never the machine, so their results do not depend on a disk,
 * and they would wait for it thousands of times.
 */
function temporaryDirectory(root: string): string {
  const parent = hasRoom('/dev/shm') ? '/dev/shm' : join(root, '.cache/tmp')
  mkdirSync(parent, { recursive: true })
  for (const name of readdirSync(parent)) {
    // Left behind by a killed run.
    const [, pid] = /^static-test-(\d+)$/.exec(name) ?? []
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(parent, name), { recursive: true, force: true })
  }
  const directory = join(parent, `static-test-${process.pid}`)
  // The postgres user must be able to access it.
  mkdirSync(directory, { mode: 0o755 })
  return directory
}

function hasRoom(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory)
    if (bavail * bsize < ENOUGH_MEMORY) return false
    // The tests install and run programs there, which some machines forbid (noexec).
    const probe = join(directory, `static-probe-${process.pid}`)
    writeFileSync(probe, '#!/bin/sh\n', { mode: 0o700 })
    try {
      return spawnSync(probe).status === 0
    } finally {
      rmSync(probe)
    }
  } catch {
    return false
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** A compile cache for all test processes, which otherwise spend half of their start-up time compiling. */
function compileCache(root: string, fresh: boolean): string {
  const directory = join(root, '.cache/compiled')
  // Start empty: programs in temporary directories also leave their code here.
  if (fresh) rmSync(directory, { recursive: true, force: true })
  return directory
}

/**
 * Bundles the `static` command and other programs that the tests start hundreds of times: Node spends half of their
 * start-up time on finding modules. The tests of the README, the docs and the packages start the command as users do.
 */
function bundlePrograms(root: string, fresh: boolean): string {
  const directory = join(root, '.cache/bundle')
  if (fresh) rmSync(directory, { recursive: true, force: true })
  bundle(root, 'bundle.config.mjs')
  return directory
}
