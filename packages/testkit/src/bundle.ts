/** Programs that tests start often. `npm test` bundles them, because Node needs long to find hundreds of modules. */
import { join } from 'node:path'

/** The file to run: the bundle, named as in scripts/bundle.config.mjs, or the source if there is none. */
export function programFile(name: string, source: string): string {
  const bundles = process.env['STATIC_TEST_BUNDLES']
  return bundles === undefined ? source : join(bundles, `${name}.js`)
}
