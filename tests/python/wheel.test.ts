import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runPython, SOURCES } from './installed.ts'

/** The tag, whether pip on this machine takes it, and the newest glibc that the native packages ask for. */
const PROGRAM = `
import json, platform, re, sys
import build_wheel
from pip._internal.utils.compatibility_tags import get_supported
files = [path for name in build_wheel.closure(build_wheel.NATIVE) for path in build_wheel.used_files(name)]
texts = [path.read_bytes() for path in files if path.suffix == ".node"]
print(json.dumps({
    "tag": build_wheel.tag(),
    "taken": build_wheel.tag() in map(str, get_supported()),
    "packages": len(texts),
    "glibc": max(int(minor) for text in texts for minor in re.findall(rb"GLIBC_2\\.(\\d+)", text)),
}))
`

test('the wheel is tagged with the glibc that its machine code needs, so that indexes and pip accept it', async () => {
  const { stdout, stderr, code } = await runPython(['-c', PROGRAM], { STATIC_NODE: process.execPath }, SOURCES)
  assert.equal(code, 0, stderr)
  const { tag, taken, packages, glibc } = JSON.parse(stdout) as Record<string, unknown>
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  assert.deepEqual([tag, taken], [`py3-none-manylinux_2_${String(glibc)}_${machine}`, true])
  assert.ok(Number(packages) >= 3)
})
