import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { runPython } from './installed.ts'

const root = resolve(import.meta.dirname, '../..')

test('docs/reference/python.md describes static_sdk as it is', async () => {
  const { code, stdout, stderr } = await runPython(['scripts/python_reference.py', '--check'], {}, root)
  assert.equal(code, 0, stdout + stderr)
})
