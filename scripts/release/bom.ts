/** The bill of materials, in CycloneDX. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BUNDLED, LEFT_OUT } from './bundled.ts'

/** As far as it is changed here. */
interface Document {
  serialNumber?: string
  readonly metadata: { timestamp?: string; readonly component: { name: string } }
  readonly components: readonly { readonly name: string; pedigree?: { readonly notes: string } }[]
}

/** What the lock file says of the packages that run, without what npm would make up for each document. */
export function bom(root: string): string {
  const words = ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only']
  const { status, stdout, stderr } = spawnSync('npm', words, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 })
  if (status !== 0) throw new Error(`npm sbom failed: ${stderr}`)
  const document = JSON.parse(stdout) as Document
  const { name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { name: string }
  delete document.serialNumber
  delete document.metadata.timestamp
  // npm takes the name of the folder.
  document.metadata.component.name = name
  const bundled = new Set(Object.values(BUNDLED).flat())
  for (const component of document.components)
    if (bundled.has(component.name)) component.pedigree = { notes: `Bundled without ${LEFT_OUT}.` }
  return `${JSON.stringify(document, null, 2)}\n`
}
