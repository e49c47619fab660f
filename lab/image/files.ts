/** Searches the files of an image for files that must not be there. */
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { lines, output } from './shell.ts'

/** Leftovers that the build has to remove. */
const ABSENT = [
  'opt/static/.cache',
  'root/{.cache,.npm,.npmrc}',
  'run/secrets',
  '{tmp,var/lib/static}/*',
  'var/cache/apt/{*.bin,archives/*.deb}',
  'var/lib/apt/lists/*_*',
]
/** Names of secrets, data and tests. */
const NAMES = ['.env*', '.git', '.npmrc', '*.key', '*.pem', '*.password', '*.sqlite*', '*.test.ts']

/** A line of a text file; programs that read keys have it in their code. */
const PRIVATE_KEY = '^-----BEGIN ([A-Z]+ )*PRIVATE KEY-----$'

/** Returns a sentence for each fault. */
export function findLeftovers(files: string, user: string, secret: string): string[] {
  const product = join(files, 'opt/static')
  const named = NAMES.flatMap((name) => ['-o', '-name', name]).slice(1)
  // Outside of node_modules, whose packages may have any names.
  const ours = ['-name', 'node_modules', '-prune', '-o', '(', ...named, ')', '-print']
  const inside = (...words: string[]): string[] => lines('chroot', [`--userspec=${user}`, '--groups=', files, ...words])
  const faults = [
    ...fault('is left of the build', globSync(ABSENT, { cwd: files })),
    ...fault('does not belong into an image', lines('find', [product, ...ours])),
    ...fault('has a secret of the build', having(['-F', '-e', secret, files])),
    ...fault('has a private key', having(['-IE', '-e', PRIVATE_KEY, product])),
    ...fault('can be changed by the server', inside('find', '/opt', '/usr', '!', '-type', 'l', '-writable')),
    ...fault('cannot be read by the server', inside('find', '/opt', '!', '-type', 'l', '!', '-readable')),
  ]
  return faults.map((text) => text.replace(files, ''))
}

/** The size of an image in words. */
export function sizesOf(files: string): string {
  const size = (path: string): string => {
    const [bytes] = output('du', ['-sx', '--block-size=1', join(files, path)]).split('\t')
    return `${(Number(bytes) / 1e6).toFixed(0)} MB`
  }
  const parts = ['opt/static/scripts/node', 'opt/static/node_modules', 'opt/static/packages']
  const named = parts.map((path) => `${size(path)} in /${path}`)
  return `${size('.')} on disk: ${named.join(', ')}`
}

/** The files that grep finds. */
function having(words: readonly string[]): string[] {
  // grep ends with 1 if there is none.
  return lines('sh', ['-c', 'grep -rl "$@" || test $? = 1', 'sh', ...words])
}

function fault(what: string, paths: readonly string[]): string[] {
  return paths.map((path) => `${path} ${what}.`)
}
