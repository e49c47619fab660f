/** Checks that what the Python package copies from TypeScript is identical. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { ERRORS, redactSecrets } from '@static/protocol'
import { runPython, SOURCES } from './installed.ts'

const root = resolve(import.meta.dirname, '../..')

async function ask(script: string): Promise<unknown> {
  const { code, stdout, stderr } = await runPython(['-c', `import json\n${script}`], { PYTHONPATH: SOURCES }, root)
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout)
}

test('both have the same error table', async () => {
  const table = await ask(`
from static_sdk.errors import CODES
print(json.dumps({code: [kind.__name__, *rest] for code, (kind, *rest) in CODES.items()}))`)
  const rows = Object.entries(ERRORS).map(([code, { family, status, prefix, retryable }]) => [
    code,
    [family, status, prefix, retryable],
  ])
  assert.deepEqual(table, Object.fromEntries(rows))
})

test('both take the same secrets out of errors', async () => {
  const body = 'Q7r2Xw9LQ7r2Xw9L_Q7r2Xw9L-Q7r2Xw9LQ7r2Xw9L'
  const prefixes = ['sk_live_', 'sk_test_', 'st_inv_', 'static://', 'static%3A%2F%2F', 'static%253A%252F', 'pw_', 'su_']
  const texts = prefixes.flatMap((prefix) => [
    `'${prefix}${body}' is wrong.`,
    `${prefix}${body}, ${body}.`,
    `${prefix}${body}\n${body}`,
    `${prefix} ${body}`,
    `${prefix}Q7r2 ${body}`,
    `/x/${prefix.replaceAll('_', '%5F')}${body}%23${prefix}${body}`,
    `%23${prefix}${body} \\n${prefix}${body}`,
    `${prefix}… and ${prefix}.`,
    `${prefix}Q7r2Xw9L… is kept`,
  ])
  const redacted = await ask(`
from static_sdk.errors import make_error
texts = json.loads(${JSON.stringify(JSON.stringify(texts))})
print(json.dumps([str(make_error("removed", text)) for text in texts]))`)
  assert.deepEqual(redacted, texts.map(redactSecrets))
  assert.equal(texts.filter((text) => redactSecrets(text).includes('Q7r2Xw9LQ7')).length, 0)
})

test('both have the same events with the same fields', async () => {
  const classes = await ask(`
from dataclasses import fields
from static_sdk.events import EVENTS
print(json.dumps({name: sorted(each.name for each in fields(kind)) for name, kind in EVENTS.items()}))`)
  const source = readFileSync(resolve(root, 'packages/sdk/src/agent/events.ts'), 'utf8')
  const [, union = ''] = /type AgentEvent =([\s\S]*?)\n\n/.exec(source) ?? []
  // Without comments, and without the fields of a member that lags.
  const plain = union.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/readonly \{[^}]*\}/g, '')
  const events = plain.split(/^ {2}\| /m).slice(1)
  const rows = events.map((event): [string, string[]] => {
    const names = [...event.matchAll(/readonly (\w+):/g)].map(([, name = '']) => inPython(name))
    return [/readonly type: '(\w+)'/.exec(event)?.[1] ?? '', names.sort()]
  })
  assert.ok(rows.length > 20)
  assert.deepEqual(classes, Object.fromEntries(rows))
})

/** A field's name in Python. Durations are in seconds there, so they have no unit in their names. */
function inPython(name: string): string {
  return name.replace(/Ms$/, '').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

test('both have the same options', async () => {
  const parameters = await ask(`
import inspect
from static_sdk import StaticClient
print(json.dumps(sorted(inspect.signature(StaticClient).parameters)))`)
  const source = readFileSync(resolve(root, 'packages/sdk/src/gen/client-options.ts'), 'utf8')
  const [, options = ''] = /interface ClientOptions \{([\s\S]*?)\n\}/.exec(source) ?? []
  const names = [...options.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(([, name = '']) => inPython(name))
  assert.ok(names.length > 10)
  assert.deepEqual(parameters, names.sort())
})

test('the Python package has the version of the SDK', async () => {
  const { version } = JSON.parse(readFileSync(resolve(root, 'packages/sdk/package.json'), 'utf8')) as {
    readonly version: string
  }
  assert.equal(await ask('import static_sdk\nprint(json.dumps(static_sdk.__version__))'), version)
})

test('the Python package uses the syntax of Python 3.9 and only the standard library', async () => {
  const imported = await ask(`
import ast, glob, sys
names = set()
# Only that part needs another package, and only programs that use it import it.
paths = set(glob.glob('python/static_sdk/**/*.py', recursive=True)) - set(glob.glob('python/static_sdk/a2a/*.py'))
for path in [*paths, 'python/build_wheel.py']:
    for node in ast.walk(ast.parse(open(path).read(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split('.')[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split('.')[0])
print(json.dumps(sorted(names - set(sys.stdlib_module_names))))`)
  assert.deepEqual(imported, ['static_sdk'])
})
