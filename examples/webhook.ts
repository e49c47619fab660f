/**
 * Receives the messages of a channel as signed HTTP requests, and checks the signature.
 *
 *     (umask 077; openssl rand -hex 32 > secret)
 *     npx node examples/webhook.ts secret 8080
 *     npx static channel listen acme/support/routing --as bob --webhook http://localhost:8080 \
 *       --webhook-secret-file secret --webhook-payload
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'

/** As `--webhook-payload` sends it; without that flag there is no payload. */
interface Message {
  readonly channel: string
  readonly message_id: string
  readonly sender: { readonly identity: string; readonly fingerprint: string }
  readonly payload: string
}

/** A payload of 256 KiB in base64, and the rest. */
const MOST_BYTES = 400_000
const OLDEST_SECONDS = 300
const [secretFile = 'secret', port = '8080'] = process.argv.slice(2)
const secret = readFileSync(secretFile, 'utf8').trim()
/** A message comes again if the answer to it was lost. A real receiver keeps this in its database. */
const seen = new Set<string>()

const server = createServer((request, response) => {
  void receive(request).then((status) => response.writeHead(status).end())
})
server.listen(Number(port), 'localhost', () => {
  const address = server.address()
  console.log(`waiting on port ${typeof address === 'object' ? address?.port : address}`)
})

/** Takes a message. Returns the status of the answer: 2xx settles the message, so it must be safe by then. */
async function receive(request: IncomingMessage): Promise<number> {
  const body = await read(request).catch(() => undefined)
  if (body === undefined) return 413
  if (!isSigned(body, request.headers['static-signature'])) return 401
  const message = JSON.parse(body) as Message
  if (seen.has(message.message_id)) return 204
  console.log(`${message.sender.identity}: ${Buffer.from(message.payload, 'base64').toString()}`)
  seen.add(message.message_id)
  return 204
}

/** The body, as long as it is not longer than a message can be. */
async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MOST_BYTES) throw new Error('The body is too long.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Whether the holder of the secret has made this body, and not long ago: `t=TIME,v1=HMAC-SHA256(secret, TIME.BODY)`. */
function isSigned(body: string, header: unknown): boolean {
  const [, time = '', signature = ''] = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/.exec(String(header)) ?? []
  if (Math.abs(Date.now() / 1000 - Number(time)) > OLDEST_SECONDS) return false
  const expected = createHmac('sha256', secret).update(`${time}.${body}`).digest()
  return signature !== '' && timingSafeEqual(expected, Buffer.from(signature, 'hex'))
}
