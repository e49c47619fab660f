// Plain JavaScript: loading Node's TypeScript support takes as long as the rest of `static --version`, and modules in
// the code cache do not need it.
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
 * Keeps compiled code between runs, which cuts a command's start-up time to a third. Uses `<XDG cache>/static/code`,
 * but only if no other user can write to it, because its content is executed.
 */
function useCodeCache() {
  const xdg = process.env['XDG_CACHE_HOME'] ?? ''
  const base = isAbsolute(xdg) ? xdg : join(homedir(), '.cache')
  const directory = join(base, 'static', 'code')
  // Without a home directory, there is no cache.
  if (!existsSync(dirname(base))) return
  try {
    for (const path of [base, dirname(directory), directory]) {
      if (!existsSync(path)) mkdirSync(path, { mode: 0o700 })
      // Anyone who can write to one of them can replace the next directory.
      const { uid, mode } = statSync(path)
      if (uid !== process.geteuid?.() || (mode & 0o022) !== 0) return
    }
    if ((statSync(directory).mode & 0o077) !== 0) return
    enableCompileCache(directory)
    // The call above applies only to this thread; a relay's store and QUIC threads read the variable.
    process.env['NODE_COMPILE_CACHE'] ||= directory
  } catch {
    // Everything works without the cache, only slower.
  }
}

/**
 * An older Node that started this one waits for it (old-node.js). If the older one is killed, this one must not stay
 * behind.
 */
function endWithOldNode() {
  if (process.env['STATIC_OLD_NODE'] === undefined) return
  // Not inherited by the programs that this one starts.
  delete process.env['STATIC_OLD_NODE']
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  // The listener alone must not keep this process alive.
  process.channel?.unref()
}
