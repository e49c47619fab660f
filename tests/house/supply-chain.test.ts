/** The packages of others: all pinned by hash, with known licences, and without install scripts that run. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { lockedPackages, runtimePaths } from '../../lab/supply/lock-file.ts'

const ROOT = resolve(import.meta.dirname, '../..')

test('every package in the lock file has a hash and a known licence, and none runs an install script', () => {
  const packages = lockedPackages(ROOT)
  assert.ok(packages.length > 100)
  assert.deepEqual(
    packages.flatMap(({ faults }) => faults),
    [],
  )
})

test('the relay needs at most 40 packages at run time, and at most 60 with PostgreSQL, NATS and S3', () => {
  const native = new Set(lockedPackages(ROOT).flatMap(({ path, isNative }) => (isNative ? [path] : [])))
  const count = (without?: ReadonlySet<string>): number =>
    [...runtimePaths(ROOT, ['packages/relay'], without)].filter((path) => !native.has(path)).length
  const [all, least] = [count(), count(new Set(['pg', '@nats-io/transport-node', 'aws4fetch']))]
  assert.ok(all <= 60 && least <= 40 && least < all, `${all} packages, ${least} without PostgreSQL, NATS and S3`)
})

test('a package without a hash, from elsewhere, with an odd licence or a script is a fault', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'static-lock-'))
  t.after(() => rmSync(root, { recursive: true }))
  const bad = { version: '1.0.0', license: 'GPL-3.0', resolved: 'https://example.com/bad.tgz', hasInstallScript: true }
  const packages = { '': {}, 'node_modules/bad': bad, 'node_modules/ours': { link: true, resolved: 'packages/ours' } }
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages }))
  assert.deepEqual(
    lockedPackages(root).flatMap(({ faults }) => faults),
    [
      'node_modules/bad has no SHA-512 hash',
      'node_modules/bad comes from https://example.com/bad.tgz instead of the registry',
      'node_modules/bad has the licence GPL-3.0',
      'node_modules/bad has an install script',
    ],
  )
})
