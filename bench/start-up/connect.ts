/** The timed program: imports the SDK and, with options, connects one agent. Runs inside the measured checkout. */
import { StaticClient } from '@static/sdk'

const [options] = process.argv.slice(2)
if (options !== undefined) {
  const client = await StaticClient.connect(JSON.parse(options) as Parameters<typeof StaticClient.connect>[0])
  await client.close()
}
