/** Planted bugs (lab/bugs) that no longer apply would prove nothing. `npm run proof -- bugs` runs them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { applyHunk, parsePatch, plantedBugs } from '../../lab/bugs/planted-bug.ts'
import { usualTests } from '../../scripts/whole-tests.ts'

const ROOT = resolve(import.meta.dirname, '../..')

test('every planted bug still applies and names tests of `npm test`', () => {
  const usual = new Set(usualTests(ROOT))
  const bugs = plantedBugs(ROOT)
  assert.ok(bugs.length >= 30, `${bugs.length} planted bugs`)
  for (const { name, proofs, hunks } of bugs) {
    for (const proof of proofs) assert.ok(usual.has(proof), `${name} names ${proof}`)
    const files = new Map<string, string>()
    for (const hunk of hunks) {
      const text = files.get(hunk.path) ?? readFileSync(join(ROOT, hunk.path), 'utf8')
      const changed = applyHunk(text, hunk)
      assert.notEqual(changed, text, name)
      files.set(hunk.path, changed)
    }
  }
})

test('a hunk whose lines have changed, or occur twice, is refused', () => {
  const { hunks } = parsePatch(
    'x',
    'About: a\nProof: b\n\ndiff --git a/f b/f\n+++ b/f\n@@ -1 +1 @@\n one\n-two\n+three\n',
  )
  const [hunk] = hunks
  assert.ok(hunk)
  assert.equal(applyHunk('zero\none\ntwo\n', hunk), 'zero\none\nthree\n')
  assert.throws(() => applyHunk('one\n2\n', hunk), /occurs 0 times/)
  assert.throws(() => applyHunk('one\ntwo\none\ntwo\n', hunk), /occurs 2 times/)
})
