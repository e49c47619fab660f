/** The short form of `npm run proof:traffic`. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { obstacle, runInside } from './network.ts'
import { type ShortFindings, STRICT_BOUND } from './short.ts'

test(
  'an observer of the network tells who talks without protection, and cannot in strict',
  { skip: obstacle() ?? false },
  (context) => {
    const { status, stdout } = runInside(join(import.meta.dirname, 'short.ts'), 'pipe')
    assert.equal(status, 0)
    const { seed, off, strict } = JSON.parse(stdout) as ShortFindings
    context.diagnostic(
      `seed ${seed}; AUC off ${off.toFixed(3)}, strict ${strict.map((auc) => auc.toFixed(3)).join(', ')}`,
    )
    assert.ok(off >= 0.8)
    assert.ok(strict.at(-1)! <= STRICT_BOUND)
  },
)
