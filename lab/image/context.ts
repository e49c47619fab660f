/** The build context: files of the checkout, npm's settings, and secrets that must not get into the image. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { lines, output } from './shell.ts'

/** Secrets in a checkout that is in use. deploy/compose/prepare.sh writes the keys. */
const PLANTED = [
  '.cache/npm/index',
  '.env',
  '.git/config',
  '.npmrc',
  'deploy/compose/secrets/authority/ca.key',
  'deploy/compose/secrets/nats/password.conf',
  'node_modules/planted/index.js',
  'packages/api/.env',
  'packages/cli/data/relay.key',
  'packages/console/dist/planted.js',
  'packages/relay/test/planted.ts',
  'packages/sdk/node_modules/planted/index.js',
  'python/.env',
  'scripts/node/.npmrc',
]

/**
 * Copies the files of a checkout, readable by their owner alone as with `umask 077`, and plants `secret` among them.
 */
export function makeContext(root: string, folder: string, secret: string): void {
  const git = ['-C', root, 'ls-files', '--cached', '--others', '--exclude-standard']
  for (const name of lines('git', git)) {
    // git lists deleted files until the deletion is staged.
    if (existsSync(join(root, name))) cpSync(join(root, name), join(folder, name))
  }
  for (const name of PLANTED) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), `# ${secret}\n`)
  }
  output('chmod', ['-R', 'u=rwX,go=', folder])
}

/**
 * The options with which npm in the build reaches its registry as it does on this machine: its settings and the
 * authorities it trusts, as secrets of one step. `secret` is among them, to be searched for in the image.
 */
export function npmSecrets(folder: string, secret: string): string[] {
  const setting = (name: string): string => {
    const { stdout } = spawnSync('npm', ['config', 'get', name], { encoding: 'utf8' })
    return stdout.trim()
  }
  const own = setting('userconfig')
  const settings = existsSync(own) ? readFileSync(own, 'utf8').split('\n') : []
  const npmrc = join(folder, 'npmrc')
  // A path of this machine; the file itself is the other secret.
  const kept = settings.filter((line) => !/^\s*cafile\s*=/.test(line))
  const text = [...kept, `registry=${setting('registry')}`, `; ${secret}`, ''].join('\n')
  writeFileSync(npmrc, text, { mode: 0o600 })
  const { NODE_EXTRA_CA_CERTS = '', SSL_CERT_FILE = '' } = process.env
  const ca = [setting('cafile'), NODE_EXTRA_CA_CERTS, SSL_CERT_FILE].find((path) => path !== '' && existsSync(path))
  return ['--secret', `id=npmrc,src=${npmrc}`, ...(ca === undefined ? [] : ['--secret', `id=ca,src=${ca}`])]
}
