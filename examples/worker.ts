/**
 * A worker that runs as a service: it joins with an invite link once, then handles every message, across restarts.
 *
 *     STATIC_DATA_DIR=./worker npx node examples/worker.ts link results
 *
 * `link` is a file from `npx static channel invite … --link > link`, `results` a directory. worker.service in this
 * directory runs it under systemd.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Envelope, StaticClient } from '@static/sdk'

const [linkFile = 'link', results = 'results'] = process.argv.slice(2)
const link = readFileSync(linkFile, 'utf8').trim()
mkdirSync(results, { recursive: true })

// `wait`: a service may start before the network. `apiKey: null`: it is a guest, so no account's key is on its machine.
const client = await StaticClient.connect({ link, identity: 'worker', apiKey: null, wait: true })
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

// After the first time it is a member, and the invite is not used again.
const channel = await client.joinWithLink(link)
console.log(`handling messages of ${channel.name}`)
await channel.handle(work, { signal: stop.signal })
await client.close()

/**
 * Does the work of a message. The message is settled once this has returned, so a worker that is killed gets it again,
 * and the name of the file, which is the same then, keeps the result from being there twice.
 */
async function work(envelope: Envelope): Promise<void> {
  const file = join(results, `${envelope.messageId}.txt`)
  await writeFile(`${file}.part`, envelope.text().toUpperCase())
  await rename(`${file}.part`, file)
  console.log(`done: ${envelope.text()}${envelope.redelivered ? ' (again)' : ''}`)
}
