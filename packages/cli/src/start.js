// Plain JavaScript: Node needs as long to load its TypeScript support as for the rest of `static --version`, and does not
// load it for modules in the code cache.
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

useCodeCache()
endWithOldNode()
// Loaded after the lines above, so that the cache covers all of it.
const { run } = await import('./program.ts')
await run()

/**
 * Keeps compiled code between runs, which cuts the start-up time of a command to a third. Uses `<XDG cache>/static/code`,
 * but only if this user alone can write to it: its content gets executed.
 */
function useCodeCache() {
  const xdg = process.env['XDG_CACHE_HOME'] ?? ''
  const base = isAbsolute(xdg) ? xdg : join(homedir(), '.cache')
  const directory = join(base, 'static', 'code')
  // No home directory, no cache.
  if (!existsSync(dirname(base))) return
  try {
    for (const path of [base, dirname(directory), directory]) {
      if (!existsSync(path)) mkdirSync(path, { mode: 0o700 })
      // Whoever can write to one of them can put another directory in place of the next.
      const { uid, mode } = statSync(path)
      if (uid !== process.geteuid?.() || (mode & 0o022) !== 0) return
    }
    if ((statSync(directory).mode & 0o077) !== 0) return
    enableCompileCache(directory)
    // The call above is for this thread only; the store and QUIC threads of a relay read the variable.
    process.env['NODE_COMPILE_CACHE'] ||= directory
  } catch {
    // Everything works without the cache, only slower.
  }
}

/** An older Node that started this one waits for it (old-node.js). If that one is killed, this one must not stay behind. */
function endWithOldNode() {
  if (process.env['STATIC_OLD_NODE'] === undefined) return
  // Not for the programs that this one starts.
  delete process.env['STATIC_OLD_NODE']
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  // The listener alone must not keep this process alive.
  process.channel?.unref()
}
