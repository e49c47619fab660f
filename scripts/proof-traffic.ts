/** `npm run proof:traffic`: what the network sees of agents, measured (lab/traffic). */
import { resolve } from 'node:path'
import { ensureCapture } from './debian.ts'
import { run } from './step.ts'

await ensureCapture('The proof of the traffic')
process.exitCode = await run(process.execPath, [resolve(import.meta.dirname, '../lab/traffic/proof.ts')])
