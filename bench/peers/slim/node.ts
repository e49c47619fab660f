/** The peer's node, which routes between its apps, in a process of its own. */
import { serve } from '../../agent/serve.ts'
import { startSlim } from './library.ts'
import type { NodeOptions } from './options.ts'

const { port, cert, key } = JSON.parse(process.argv[2] ?? '{}') as NodeOptions
const slim = await startSlim()
const source = slim.TlsSource.File.new({ cert, key })
await slim.getGlobalService().runServerAsync(slim.newSecureServerConfig(`127.0.0.1:${port}`, source))
serve((ask) => Promise.reject(new Error(`The node is not asked: ${ask.type}.`)))
