/**
 * Bundles of the test files. Each file runs in a process of its own, which spends half a second of CPU time on finding,
 * reading and stripping hundreds of modules: as much as many of the tests.
 */
import { spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail } from './step.ts'

/** Replaces test files by their bundles, with source maps: failures name the lines of the sources. */
export function bundleTests(root: string, files: readonly string[]): string[] {
  rmSync(join(root, '.cache/tests'), { recursive: true, force: true })
  writeFileSync(join(root, '.cache/test-files.json'), JSON.stringify(files))
  bundle(root, 'test-bundles.config.mjs')
  return files.map((file) => join('.cache/tests', file.replace(/\.ts$/, '.js')))
}

/** Runs rolldown, which is installed with Vite: it builds the console. */
export function bundle(root: string, config: string): void {
  const words = [join(root, 'node_modules/rolldown/bin/cli.mjs'), '-c', join(root, 'scripts', config)]
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  if (status !== 0) fail(`Bundling by ${config} failed:\n${stdout}${stderr}`)
}
