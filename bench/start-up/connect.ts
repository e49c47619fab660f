/** What is timed: imports the SDK and, given how, connects one agent. Runs inside the checkout that is measured. */
import { StaticClient } from '@static/sdk'

const [options] = process.argv.slice(2)
if (options !== undefined) {
  const client = await StaticClient.connect(JSON.parse(options) as Parameters<typeof StaticClient.connect>[0])
  await client.close()
}
