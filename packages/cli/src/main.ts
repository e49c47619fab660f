#!/usr/bin/env node
/** The `static` command. */
import { useCodeCache } from './code-cache.ts'

useCodeCache()
// Loaded after the line above, so that all of it comes from there.
const { run } = await import('./program.ts')
await run()
