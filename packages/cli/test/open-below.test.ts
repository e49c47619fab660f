/** Files below a directory: nothing that a caller names, and no link, leads out of it. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openBelow } from '../src/agent/open-below.ts'

test('only regular files below the directory are opened, however the path is written', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'static-below-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const root = join(home, 'root')
  mkdirSync(join(root, 'a/b'), { recursive: true })
  mkdirSync(join(home, 'root2'))
  for (const name of ['root/file', 'root/a/b/deep', 'root/..file', 'root2/other', 'secret'])
    writeFileSync(join(home, name), name)
  symlinkSync('file', join(root, 'inner'))
  symlinkSync('../secret', join(root, 'outer'))
  symlinkSync('..', join(root, 'up'))
  symlinkSync('a', join(root, 'within'))
  symlinkSync(root, join(home, 'alias'))
  execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', join(root, 'pipe')])
  // The directory itself may be reached by a link: the user has named it.
  for (const [directory, path] of [
    [root, 'file'],
    [root, 'a/b/deep'],
    [root, '..file'],
    [join(home, 'alias'), 'file'],
  ] as const) {
    const { file, size } = await openBelow(directory, path)
    assert.equal(String(await file.readFile()), path === '..file' ? 'root/..file' : `root/${path}`)
    assert.equal(size, `root/${path}`.length)
    await file.close()
  }
  const outside = ['../secret', '..', 'a/../../secret', 'a/../file', './file', 'a//b/deep', '', '/etc/passwd']
  outside.push(
    join(root, 'file'),
    '..\\secret',
    'inner',
    'outer',
    'up/secret',
    'up/root/file',
    'within/b/deep',
    'file\0',
  )
  for (const path of outside) await assert.rejects(openBelow(root, path), { code: 'not_allowed' }, path)
  for (const path of ['a', 'pipe']) await assert.rejects(openBelow(root, path), { code: 'invalid_request' }, path)
  for (const path of ['none', 'file/x', '../root2/other'.slice(3)])
    await assert.rejects(openBelow(root, path), { code: 'not_found' }, path)
})
