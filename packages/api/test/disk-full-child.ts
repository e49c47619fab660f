/** Serves the API under a limit on the size of files, meets it, has it lifted, and prints the answers. */
import { execFileSync } from 'node:child_process'
import { startApi } from '../src/index.ts'

const MOST_SIGNUPS = 2000

const [database = '', prlimit = ''] = process.argv.slice(2)
const api = await startApi({
  database,
  masterKey: new Uint8Array(32),
  host: '127.0.0.1',
  port: 0,
  settings: { argon2: { memoryKib: 8, passes: 1 }, rates: { signups: { limit: 100_000 } } },
  log: { write: () => {}, pretty: false, level: 'silent' },
})

async function signUp(number: number): Promise<{ status: number; code: unknown }> {
  const body = JSON.stringify({ email: `a${number}@example.com`, password: `correct horse ${number}` })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${api.url}/v1/accounts`, { method: 'POST', headers, body })
  return { status: answer.status, code: ((await answer.json()) as { code?: unknown }).code }
}

async function ready(): Promise<number> {
  return (await fetch(`${api.url}/health/ready`)).status
}

let number = 0
let refused = await signUp(number)
while (refused.status === 201 && number < MOST_SIGNUPS) refused = await signUp(++number)
const whenFull = await ready()
execFileSync(prlimit, [`--pid=${process.pid}`, '--fsize=unlimited'])
const whenFree = await ready()
const after = await signUp(number)
await api.close()
console.log(JSON.stringify({ refused, whenFull, whenFree, after: after.status }))
