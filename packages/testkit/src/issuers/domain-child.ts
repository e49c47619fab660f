// The web server of a domain as its own process: the files of a directory over TLS, as they are when somebody asks. Reads its
// certificate and the directory from the first line of stdin, prints its port, and ends with stdin.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, normalize } from 'node:path'
import { createInterface } from 'node:readline'

const lines = createInterface({ input: process.stdin })
lines.once('line', (line) => {
  const { cert, key, directory } = JSON.parse(line) as Record<'cert' | 'key' | 'directory', string>
  const server = createServer({ cert, key }, (request, response) => {
    const { host = '' } = request.headers
    try {
      const page = readFileSync(join(directory, normalize(`/${host}${request.url ?? '/'}`)))
      response.writeHead(200, { 'content-type': 'application/json' }).end(page)
    } catch {
      response.writeHead(404).end('not here')
    }
  })
  server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
})
lines.once('close', () => process.exit())
