/**
 * `npm run release`: builds all that is published, from what is committed, into `.cache/release`; an argument after `--`
 * names another folder. The same commit gives the same bytes on the same kind of machine.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { assembleArchive } from './release/archive.ts'
import { contextFiles } from './release/context.ts'
import { bom } from './release/bom.ts'
import { packFiles, packFolder } from './release/tar.ts'
import { ensureDebian } from './debian.ts'
import { fail, run, say } from './step.ts'

const root = resolve(import.meta.dirname, '..')
const target = resolve(process.argv[2] ?? join(root, '.cache/release'))
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
const name = `static-${version}`

const changed = git('status', '--porcelain')
if (changed !== '') fail(`These files differ from the last commit, and a release has what is committed:\n${changed}`)
/** Of every file in an archive: when the commit was made. */
const seconds = Number(git('log', '-1', '--format=%ct'))

rmSync(target, { recursive: true, force: true })
const work = join(target, 'work')
mkdirSync(work, { recursive: true })

await step('npm packages', process.execPath, join(root, 'scripts/pack.ts'), join(work, 'npm'))
for (const file of globSync(join(work, 'npm/*.tgz'))) renameSync(file, join(target, basename(file)))

const python = await ensureDebian('python3', '/usr/bin/python3', 'The wheel')
await step('the wheel', python, '-B', join(root, 'python/build_wheel.py'), target)

say('Building the context of the image')
await packFiles(root, contextFiles(root), join(target, `${name}-image-context.tar.gz`), seconds)

say('Building the archive with Node')
const archive = `${name}-${process.platform}-${process.arch}`
await assembleArchive({ root, packed: join(work, 'npm'), node: await lockedNode(), folder: join(work, archive) })
await packFolder(work, archive, join(target, `${archive}.tar.gz`), seconds)

say('Writing the bill of materials and the checksums')
writeFileSync(join(target, `${name}.cdx.json`), bom(root))
rmSync(work, { recursive: true })
const files = readdirSync(target).sort()
const sum = (file: string): string =>
  createHash('sha256')
    .update(readFileSync(join(target, file)))
    .digest('hex')
writeFileSync(join(target, 'SHA256SUMS'), files.map((file) => `${sum(file)}  ${file}\n`).join(''))
for (const file of files)
  process.stdout.write(`${(statSync(join(target, file)).size / 1e6).toFixed(1).padStart(7)} MB  ${file}\n`)
process.stdout.write(`All with SHA256SUMS in ${target}\n`)

async function step(what: string, program: string, ...words: readonly string[]): Promise<void> {
  say(`Building ${what}`)
  if ((await run(program, words, { STATIC_NODE: process.execPath })) !== 0)
    fail(`Building ${what} failed; see its output above.`)
}

/** The Node of scripts/node, also where a newer one runs this: a release must not depend on that. */
async function lockedNode(): Promise<string> {
  const { lockedNode: path, downloadNode } = (await import(join(root, 'scripts/install.mjs'))) as {
    readonly lockedNode: string
    readonly downloadNode: (path: string, level: string) => void
  }
  if (!existsSync(path)) downloadNode(path, 'test')
  return path
}

function git(...words: string[]): string {
  const { status, stdout, stderr } = spawnSync('git', ['-C', root, ...words], { encoding: 'utf8' })
  if (status !== 0) fail(`A release is built from a clone: git ${words[0]} failed: ${stderr}`)
  return stdout.trim()
}
