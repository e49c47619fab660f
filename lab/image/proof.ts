/**
 * `npm run proof -- image`: builds deploy/Dockerfile, looks into the image, and runs `static up` in it. Needs root on
 * Debian, and Debian's and npm's servers, but no registry of images: mmdebstrap makes the base, and buildah builds on it with
 * chroot isolation. The checkout that it builds has secrets lying in it, which must not get into the image.
 *
 * Chroot isolation has neither a read-only root nor a network of its own. So the server runs in namespaces instead
 * (container.ts), as compose.yaml would run it, on a loopback that only it uses.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { buildImage, makeBase } from './buildah.ts'
import { Machine } from './container.ts'
import { makeContext, npmSecrets } from './context.ts'
import { findLeftovers, sizesOf } from './files.ts'
import { say } from '../../scripts/step.ts'
import { output } from './shell.ts'

/** As HEALTHCHECK in the Dockerfile allows. */
const START_MS = 60_000
/** In the /proc/PID/status of the server: its user four times, no capabilities, none to be gained. */
const RIGHTS = {
  Uid: '10001 10001 10001 10001',
  Gid: '10001 10001 10001 10001',
  CapEff: '0000000000000000',
  CapBnd: '0000000000000000',
  NoNewPrivs: '1',
}

const root = resolve(import.meta.dirname, '../..')
// Gigabytes, and /tmp may be in memory.
const home = mkdtempSync('/var/tmp/static-image-')
// Ctrl-C ends the program that runs, and with it this one, but not before its files are removed.
process.on('SIGINT', () => {})

try {
  await prove()
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exitCode = 1
} finally {
  output('rm', ['-rf', '--one-file-system', home])
}

async function prove(): Promise<void> {
  const secret = `planted-${randomBytes(16).toString('hex')}`
  const context = join(home, 'context')
  mkdirSync(context)
  makeContext(root, context, secret)
  await step('Base made by mmdebstrap', () => makeBase(home))
  const image = await step('deploy/Dockerfile built', () => buildImage(home, context, npmSecrets(home, secret)))
  const { config, description, files } = image
  const faults = await step('Files of the image looked through', () => findLeftovers(files, config.User, secret))
  if (description.includes(secret)) faults.push('The description of the image has a secret of the build.')
  if (config.User !== '10001:10001') faults.push(`The image runs as ${config.User}, not as 10001:10001.`)
  say(sizesOf(files))

  const machine = new Machine(image, home)
  const version = await step('`static --version` run', () => machine.run(...config.Entrypoint, '--version'))
  say(`static ${version}`)
  // The second time with the data of the first.
  for (const time of ['first', 'second']) {
    using server = await machine.start('up')
    await step(`\`static up\` healthy, the ${time} time`, () =>
      server.until(config.Healthcheck.Test.slice(1), START_MS),
    )
    await server.printed('Static is running')
    const status = server.status()
    for (const [name, wanted] of Object.entries(RIGHTS)) {
      const found = status.get(name)
      if (found !== wanted) faults.push(`${name} of the server is ${found}, not ${wanted}.`)
    }
    const code = await step('SIGTERM sent, and its end awaited', () => server.stop())
    if (code !== 0 || !server.log.includes('API stopped'))
      faults.push(`After SIGTERM the server ended with ${code}, not cleanly:\n${server.log}`)
  }
  await step('SIGTERM sent to a server that starts', async () => {
    using server = await machine.start('up')
    await server.printed('listening on')
    if ((await server.stop()) === null) faults.push('A server that starts does not end after SIGTERM.')
  })
  if (faults.length > 0) throw new Error(faults.join('\n'))
  say('The image is complete, clean and runs as it should.')
}

/** Does a step and prints how long it took. */
async function step<T>(what: string, act: () => T | Promise<T>): Promise<T> {
  const started = performance.now()
  const result = await act()
  say(`${what}: ${((performance.now() - started) / 1000).toFixed(1)} s`)
  return result
}
