/** The Python package as users get it: installed by pip, without an index, into its own directory. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** Debian's Python: another one may come first in PATH. */
export const PYTHON: string = process.env['STATIC_TEST_PYTHON'] ?? '/usr/bin/python3'
/** The sources. */
export const SOURCES: string = resolve(import.meta.dirname, '../../python')

const start = promisify(execFile)

/** The output and exit code of a program. */
export interface Ran {
  readonly stdout: string
  readonly stderr: string
  readonly code: number
}

/** Runs Python until it exits, with only the given environment variables and PATH. */
export async function runPython(words: readonly string[], env: NodeJS.ProcessEnv, cwd: string): Promise<Ran> {
  const { TMPDIR, NODE_COMPILE_CACHE, LD_LIBRARY_PATH, PYTHONPATH } = process.env
  const given = { PATH: '/usr/bin:/bin', TMPDIR, NODE_COMPILE_CACHE, LD_LIBRARY_PATH, PYTHONPATH }
  const options = { cwd, env: { ...given, ...env }, maxBuffer: 2 ** 26 }
  try {
    return { ...(await start(PYTHON, ['-B', ...words], options)), code: 0 }
  } catch (error) {
    const { stdout, stderr, code } = error as Ran
    return { stdout, stderr, code: code || 1 }
  }
}

/** Installs the package into a directory. */
export async function install(directory: string): Promise<void> {
  const words = ['-m', 'pip', 'install', '--quiet', '--no-index', '--no-deps', '--target', directory, SOURCES]
  const env = { PYTHONDONTWRITEBYTECODE: '1', PIP_ROOT_USER_ACTION: 'ignore', STATIC_NODE: process.execPath }
  const { code, stdout, stderr } = await runPython(words, env, directory)
  if (code !== 0) throw new Error(`pip could not install the package:\n${stdout}${stderr}`)
}

/** The version of a2a-sdk that the tests use. */
const A2A_SDK = 'a2a-sdk==1.3.0'
/** Kept for later runs. */
const A2A_DIRECTORY = resolve(import.meta.dirname, '../../.cache/a2a-sdk')

/** Installs a2a-sdk from PyPI. Returns its directory, or why it cannot be installed. */
export async function installA2A(): Promise<{ readonly directory: string } | { readonly reason: string }> {
  const done = join(A2A_DIRECTORY, A2A_SDK)
  if (!existsSync(done)) {
    mkdirSync(A2A_DIRECTORY, { recursive: true })
    const words = ['-m', 'pip', 'install', '--quiet', '--upgrade', '--target', A2A_DIRECTORY, A2A_SDK]
    const settings = Object.entries(process.env).filter(([name]) =>
      /^(PIP_|HTTPS?_PROXY|https?_proxy|NO_PROXY|no_proxy)/.test(name),
    )
    const env = { ...Object.fromEntries(settings), PIP_ROOT_USER_ACTION: 'ignore', HOME: process.env['HOME'] }
    const { code, stderr } = await runPython(words, env, A2A_DIRECTORY)
    if (code !== 0) return { reason: stderr.trim().split('\n').at(-1) ?? '' }
    writeFileSync(done, '')
  }
  return { directory: A2A_DIRECTORY }
}

/** The names of the package's test modules, except for the one that needs a2a-sdk. */
export function testNames(): readonly string[] {
  const files = readdirSync(join(SOURCES, 'tests')).filter((name) => /^test_(?!a2a)\w+\.py$/.test(name))
  return files.map((name) => `tests.${name.slice(0, -'.py'.length)}`)
}
