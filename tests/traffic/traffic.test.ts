/** The short form of `npm run proof -- traffic`. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { obstacle, runInside } from '../../lab/traffic/network.ts'
import { OFF_BOUND, type ShortFindings, STRICT_BOUND } from '../../lab/traffic/short.ts'

test(
  'a network observer can tell who talks without protection, and cannot in strict',
  { skip: obstacle() ?? false },
  (context) => {
    const { status, stdout } = runInside(join(import.meta.dirname, '../../lab/traffic/short.ts'), 'pipe')
    assert.equal(status, 0)
    const { seed, off, strict } = JSON.parse(stdout) as ShortFindings
    const words = (tries: readonly number[]): string => tries.map((auc) => auc.toFixed(3)).join(', ')
    context.diagnostic(`seed ${seed}; AUC off ${words(off)}, strict ${words(strict)}`)
    assert.ok(off.at(-1)! >= OFF_BOUND)
    assert.ok(strict.at(-1)! <= STRICT_BOUND)
  },
)
