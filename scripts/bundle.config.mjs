// How rolldown bundles the `static` command for the tests; see test-set-up.ts.
import { resolve } from 'node:path'

/** Below the checkout, where the packages are found that stay outside. */
const directory = resolve(import.meta.dirname, '../.cache/bundle')
const packages = resolve(import.meta.dirname, '../packages')
const workers = {
  'store-worker': 'relay/src/store/sqlite/worker.ts',
  'quic-worker': 'relay/src/transport/quic/worker.ts',
  'clock-worker': 'sdk/src/transport/clock-worker.ts',
}

export default {
  input: {
    main: resolve(packages, 'cli/src/main.js'),
    ...Object.fromEntries(Object.entries(workers).map(([name, path]) => [name, resolve(packages, path)])),
  },
  platform: 'node',
  output: { dir: directory, format: 'esm' },
  // Packages with machine code find it relative to their own files.
  external: [/^@currentspace\/http3$/, /^better-sqlite3-multiple-ciphers$/, /^sodium-native$/, /^@node-rs\/argon2$/],
  plugins: [
    {
      name: 'workers',
      transform(code, id) {
        return code.replaceAll(/new URL\('(\.\/[\w-]+\.ts)', import\.meta\.url\)/g, (_, path) => {
          const source = resolve(id, '..', path)
          const found = Object.entries(workers).find(([, worker]) => source === resolve(packages, worker))
          if (!found) throw new Error(`${id} starts ${path}, which bundle.config.mjs does not know.`)
          return `new URL('./${found[0]}.js', import.meta.url)`
        })
      },
    },
  ],
}
