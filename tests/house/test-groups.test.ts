/** Which test files share a process. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { groupFiles } from '../../scripts/test-groups.ts'

const SHARING = ['packages/protocol/test/codec/a.test.ts', 'packages/protocol/test/b.test.ts']
const ALONE: Readonly<Record<string, string>> = {
  'packages/protocol/test/hook.test.ts': 'beforeEach(() => {})\n',
  'packages/sdk/test/channel/child.test.ts': "import { fork } from 'node:child_process'\n",
  'packages/sdk/test/fuzz/fuzz.test.ts': '',
  'packages/sdk/test/store/power.test.ts': "import { Disk } from '@static/testkit/power/disk'\n",
  'tests/e2e/relay.test.ts': '',
}

test('every file runs once; those that start processes, measure or have hooks for all run alone', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'static-groups-'))
  t.after(() => rmSync(root, { recursive: true }))
  const files = { ...Object.fromEntries(SHARING.map((path) => [path, ''])), ...ALONE }
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const [group = '', ...alone] = groupFiles(root, Object.keys(files))
  assert.deepEqual(alone, Object.keys(ALONE))
  const imports = readFileSync(join(root, group), 'utf8')
  assert.equal(imports, SHARING.map((path) => `import '../../${path}'\n`).join(''))
})
