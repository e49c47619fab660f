/** Archives with the same bytes for the same files: sorted, without an owner, with one time and modes that no umask changes. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'

/** Packs a folder. */
export async function packFolder(parent: string, folder: string, archive: string, seconds: number): Promise<void> {
  await pack(['-C', parent, folder], archive, seconds)
}

/** Packs files, by their paths in a folder. */
export async function packFiles(
  folder: string,
  files: readonly string[],
  archive: string,
  seconds: number,
): Promise<void> {
  const list = files
    .toSorted()
    .map((file) => `${file}\0`)
    .join('')
  await pack(['-C', folder, '--null', '--verbatim-files-from', '--files-from=-'], archive, seconds, list)
}

async function pack(words: readonly string[], archive: string, seconds: number, input = ''): Promise<void> {
  const same = ['--sort=name', '--format=gnu', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX']
  const tar = spawn('tar', ['-c', ...same, `--mtime=@${seconds}`, ...words], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(tar, 'close')
  // Without a list, tar reads nothing and may have ended.
  tar.stdin.on('error', () => {})
  tar.stdin.end(input)
  await pipeline(tar.stdout, createGzip({ level: 9 }), createWriteStream(archive))
  const [code] = (await ended) as [number | null]
  if (code !== 0) throw new Error(`tar could not pack ${archive}; see its output above.`)
}
