/** The bill of materials, in CycloneDX. */
import { spawnSync } from 'node:child_process'

/** What the lock file says of the packages that run, without what npm would make up for each document. */
export function bom(root: string): string {
  const words = ['sbom', '--sbom-format', 'cyclonedx', '--omit', 'dev', '--package-lock-only']
  const { status, stdout, stderr } = spawnSync('npm', words, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 })
  if (status !== 0) throw new Error(`npm sbom failed: ${stderr}`)
  const document = JSON.parse(stdout) as { serialNumber?: string; metadata?: { timestamp?: string } }
  delete document.serialNumber
  delete document.metadata?.timestamp
  return `${JSON.stringify(document, null, 2)}\n`
}
