// How rolldown bundles the programs that tests start often; see test-set-up.ts.
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
const programs = {
  static: 'packages/cli/src/main.js',
  'a2a-child': 'packages/a2a/test/kills/party-child.ts',
  'agent-child': 'packages/sdk/test/crash/agent-child.ts',
  'chaos-child': 'lab/chaos/agent/child.ts',
  'manager-child': 'tests/support/manager-child.ts',
  'relay-child': 'packages/testkit/src/relay/child.ts',
}
/** They start these as threads. */
const workers = {
  'store-worker': 'packages/relay/src/store/sqlite/thread/worker.ts',
  'crashing-store-worker': 'packages/testkit/src/crash/store-worker.ts',
  'quic-worker': 'packages/relay/src/transport/quic/worker.ts',
  'proxy-files-thread': 'packages/relay/src/proxy/files-thread.ts',
  'files-thread': 'packages/relay/src/files/thread.ts',
  'clock-worker': 'packages/sdk/src/transport/clock-worker.ts',
  'hash-worker': 'packages/api/src/secrets/hash-worker.ts',
}

/** Packages with machine code find it relative to their own files. */
export const external = [
  /^@currentspace\/http3$/,
  /^better-sqlite3-multiple-ciphers$/,
  /^sodium-native$/,
  /^@node-rs\/argon2$/,
]

/** The name of the bundle of a thread, by its source. */
export function workerName(source) {
  return Object.keys(workers).find((name) => source === resolve(root, workers[name]))
}

export default {
  input: Object.fromEntries(
    Object.entries({ ...programs, ...workers }).map(([name, path]) => [name, resolve(root, path)]),
  ),
  platform: 'node',
  // Below the checkout, where Node finds the packages that stay outside.
  output: { dir: resolve(root, '.cache/bundle'), format: 'esm' },
  external,
  plugins: [
    {
      name: 'workers',
      transform(code, id) {
        return code.replaceAll(/new URL\('(\.\/[\w/-]+\.ts)', import\.meta\.url\)/g, (_, path) => {
          const name = workerName(resolve(id, '..', path))
          if (!name) throw new Error(`${id} starts ${path}, which bundle.config.mjs does not know.`)
          return `new URL('./${name}.js', import.meta.url)`
        })
      },
    },
  ],
}
