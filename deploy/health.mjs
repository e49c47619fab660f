// The health check of the image: exits with 0 if the server in this container answers 200. The URL is of this machine, so
// the certificate, which is for the public name, is not verified. Nothing is sent that anyone could misuse.
import { request } from 'node:https'

const url = new URL(process.env.STATIC_HEALTH_URL ?? 'https://127.0.0.1:5000/health')
if (!['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)) {
  process.stderr.write(`${url} is not on this machine. Set STATIC_HEALTH_URL to a URL of 127.0.0.1.\n`)
  process.exit(2)
}
const sent = request(url, { rejectUnauthorized: false, signal: AbortSignal.timeout(4000) }, (response) => {
  process.exit(response.statusCode === 200 ? 0 : 1)
})
sent.on('error', (error) => {
  process.stderr.write(`${url}: ${error.message}\n`)
  process.exit(1)
})
sent.end()
