/** The API reference, which the API writes itself, has the colours of the console. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const COLOUR = /--([\w-]+): (light-dark\([^)]*\))/g

function coloursIn(path: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(import.meta.dirname, '../..', path), 'utf8')
  return new Map([...text.matchAll(COLOUR)].map(([, name = '', colour = '']) => [name, colour]))
}

test('/docs has the colours of the console', () => {
  const console = coloursIn('packages/console/src/style/base.css')
  const reference = coloursIn('packages/api/src/http/pages.ts')
  assert.ok(reference.size >= 7)
  for (const [name, colour] of reference) assert.equal(colour, console.get(name), name)
})
