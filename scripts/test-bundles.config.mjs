// How rolldown bundles the test files; see test-bundles.ts.
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { external, workerName } from './bundle.config.mjs'

const root = resolve(import.meta.dirname, '..')
const cache = resolve(root, '.cache')
const files = JSON.parse(readFileSync(resolve(cache, 'test-files.json'), 'utf8'))

/** A bundle is elsewhere than its sources, which look for files beside them, and start bundled threads. */
function inPlace(code, id) {
  if (!/import\.meta|__dirname/.test(code)) return undefined
  return code
    .replaceAll(/new URL\('(\.\/[\w/-]+\.ts)', import\.meta\.url\)/g, (text, path) => {
      const name = workerName(resolve(id, '..', path))
      return name ? `new URL(${JSON.stringify(pathToFileURL(resolve(cache, 'bundle', `${name}.js`)).href)})` : text
    })
    .replaceAll(/import\.meta\.dirname|\b__dirname\b/g, JSON.stringify(dirname(id)))
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
    .replaceAll('import.meta.main', 'false')
}

export default {
  input: Object.fromEntries(files.map((file) => [file.replace(/\.ts$/, ''), resolve(root, file)])),
  platform: 'node',
  output: { dir: resolve(cache, 'tests'), format: 'esm', sourcemap: true },
  external: [...external, /^playwright-core$/],
  plugins: [{ name: 'in-place', transform: inPlace }],
}
