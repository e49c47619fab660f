/** A disk of its own that a test fills: a file system in memory, which only root can mount. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const DISK_BYTES = 8 * 1024 * 1024

/** A disk with nothing on it. */
export interface SmallDisk extends Disposable {
  readonly path: string
  /** Fills all but this many bytes. */
  fill(left?: number): void
}

/** The reason why none can be mounted here; false if one can. */
export function noSmallDisk(): string | false {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root on Linux'
  const { status } = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'static', '/mnt'])
  return status === 0 ? false : 'needs the right to mount'
}

/** Mounts one; `using` removes it. */
export function mountSmallDisk(): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'static-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=700`, 'static', path])
  const filler = join(path, 'filler')
  return {
    path,
    fill(left = 0) {
      rmSync(filler, { force: true })
      const { bavail, bsize } = statfsSync(path)
      writeFileSync(filler, Buffer.alloc(bavail * bsize - left))
    },
    [Symbol.dispose]: () => {
      execFileSync('umount', ['--lazy', path])
      rmdirSync(path)
    },
  }
}
