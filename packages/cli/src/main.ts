#!/usr/bin/env node
/** The `static` command. */
import { useCodeCache } from './code-cache.ts'

useCodeCache()
// Loaded after the line above, so that the cache covers all of it.
const { run } = await import('./program.ts')
await run()
