/**
 * Stamps the hops of messages in this thread: inserts a call at each place that hops.ts names, while the module is
 * loaded, and writes the times to a file in the directory STATIC_HOPS. All processes of a machine share the clock.
 */
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'
import { HOPS } from './hops.ts'

const WRITE_MS = 100

const file = join(process.env['STATIC_HOPS'] ?? '', `${process.env['STATIC_HOPS_ROLE']}-${process.pid}-${threadId}`)
let lines: string[] = []

/** The name of the hop and the time in nanoseconds. */
Object.assign(globalThis, {
  staticHop: (name: string): void => void lines.push(`${name} ${process.hrtime.bigint()}\n`),
})

setInterval(() => {
  if (lines.length === 0) return
  const ready = lines.join('')
  lines = []
  appendFileSync(file, ready)
}, WRITE_MS).unref()

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const here = HOPS.filter(({ place }) => place && url.endsWith(`/packages/${place.file}`))
    if (here.length === 0 || loaded.source === undefined || loaded.source === null) return loaded
    let source = typeof loaded.source === 'string' ? loaded.source : Buffer.from(loaded.source as Uint8Array).toString()
    for (const { name, place } of here) {
      if (!place?.anchor.test(source)) continue
      source = source.replace(place.anchor, place.text.replace('STAMP', `globalThis.staticHop('${name}')`))
      lines.push(`found ${name}\n`)
    }
    return { ...loaded, source }
  },
})
