/** Several real nodes of one relay on loopback, in this process: each connection goes to the next of them. */
import { startTestRelay, type TestRelay, type TestRelayOptions, type Way } from './relay.ts'

/** Starts nodes over the database, the key and the NATS servers in the options. Looks like one relay to its user. */
export async function startTestNodes(way: Way, count: number, options: TestRelayOptions): Promise<TestRelay> {
  const first = await startTestRelay(way, options)
  const nodes = [first]
  while (nodes.length < count) nodes.push(await startTestRelay(way, { ...options, api: first.api }))
  let turn = 0
  return {
    // Ports that a test asks for are those of one node.
    ...first,
    wire: () => (nodes[turn++ % count] ?? first).wire(),
    restart: async () => {
      for (const node of nodes) await node.restart()
    },
    close: async () => void (await Promise.all(nodes.map((node) => node.close()))),
  }
}
