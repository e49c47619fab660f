/** How long `static up` takes on a data directory that it made before, and what it then holds in memory. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeClient } from '@static/testkit/server/client'
import { startServer } from '@static/testkit/server'
import type { Workspace } from '@static/testkit/server/workspace'
import { median, residentMib } from './processor.ts'

const STARTS = 4

/** Figures about starting. */
export interface StartUp {
  /** From the start of the process to its ready line, median of all but the first. */
  readonly readyMs: number
  readonly restMib: number
}

/** Starts and stops the whole system a few times. */
export async function measureStartUp(workspace: Workspace): Promise<StartUp> {
  const dataDir = workspace.directory('up')
  const times: number[] = []
  const sizes: number[] = []
  for (let start = 0; start < STARTS; start++) {
    await using up = await startServer({ workspace, dataDir, command: 'up' })
    using probe = makeClient(up.url, readFileSync(join(dataDir, 'ca.pem'), 'utf8'))
    await probe.json(200, { path: '/health/ready' })
    if (start > 0) {
      times.push(up.readyMs)
      sizes.push(residentMib(up.pid))
    }
    await up.end('SIGTERM')
  }
  return { readyMs: median(times), restMib: median(sizes) }
}
