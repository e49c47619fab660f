/** Sets up the tests: Debian packages, PostgreSQL, temporary files and environment variables. */
import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { makeCertificates } from '@static/testkit/certificates'
import { ensureCapture, ensureDebian, tryDebian } from './debian.ts'
import { ensureNats } from './nats.ts'
import { startPostgres } from './postgres.ts'
import { makeTemporary } from './temporary.ts'
import { bundle } from './test-bundles.ts'

/** How many test files run at once: they wait for other processes and for timers, so two more than cores are busy. */
export const AT_ONCE: number = availableParallelism() + 2
/** `STATIC_` variables to unset: they refer to the agent, account or database of the person who runs the tests. */
const PERSONAL = ['API_KEY', 'API_URL', 'CA', 'DATABASE', 'DATA_DIR', 'IDENTITY', 'NATS', 'NODE', 'RELAY', 'RELAY_NAME']

/** Prepares this process and its children for tests; dispose of it when they are done. */
export async function setUpTests(options: { readonly freshCodeCache: boolean }): Promise<AsyncDisposable> {
  const root = resolve(import.meta.dirname, '..')
  const python = '/usr/lib/python3/dist-packages'
  // Some machines have only its smallest part.
  await ensureDebian('python3', '/usr/lib/python3.*/hmac.py', 'The Python test')
  process.env['STATIC_TEST_PYTHON'] = await ensureDebian('python3', '/usr/bin/python3', 'The Python test')
  await ensureDebian('curl', '/usr/bin/curl', 'The README test')
  await ensureDebian('python3-pip', `${python}/pip/__init__.py`, 'The Python package test')
  await ensureDebian('python3-grpcio', `${python}/grpc/__init__.py`, 'The Python test')
  await ensureDebian('python3-protobuf', `${python}/google/protobuf/__init__.py`, 'The Python test')
  await ensureDebian('python3-cryptography', `${python}/cryptography/__init__.py`, 'The Python test')
  // The whole Chromium does as well, if it is there, but needs half as much CPU time again.
  await tryDebian('chromium-headless-shell', '/usr/lib/chromium/chromium-headless-shell')
  const browsers = '{bin/chromium,lib/chromium/chromium-headless-shell}'
  const browser = await ensureDebian('chromium-headless-shell', `/usr/${browsers}`, 'The browser test')
  // Not installed, but unpacked.
  if (!browser.startsWith('/usr/')) process.env['STATIC_TEST_BROWSER'] = browser
  await ensureCapture('The traffic test')
  process.env['STATIC_TEST_NATS'] = await ensureNats()
  // In memory if there is room: the tests kill processes, never the machine, so their results do not depend on a disk, and
  // they would wait for it thousands of times.
  const temporary = makeTemporary(['/dev/shm', join(root, '.cache/tmp')])
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

/** A compile cache for all test processes, which otherwise spend half of their start-up time compiling. */
function compileCache(root: string, fresh: boolean): string {
  const directory = join(root, '.cache/compiled')
  // Start empty: programs in temporary directories leave their code here, as well.
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
