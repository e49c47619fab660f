/** `npm run pack:python`: builds the wheel of the Python package, for this platform, in .cache/wheel. */
import { join, resolve } from 'node:path'
import { ensureDebian } from './debian.ts'
import { fail, run } from './step.ts'

const root = resolve(import.meta.dirname, '..')
const python = await ensureDebian('python3', '/usr/bin/python3', 'The wheel')
const words = ['-B', join(root, 'python/build_wheel.py'), join(root, '.cache/wheel')]
if ((await run(python, words, { STATIC_NODE: process.execPath })) !== 0)
  fail('Building the wheel failed; see the output above.')
