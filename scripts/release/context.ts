/** The context of the image: the committed files that `.dockerignore` lets in, and the file that builds it. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const ALWAYS = ['.dockerignore', 'deploy/Dockerfile', 'deploy/image.sh']

/** Their paths, sorted. */
export function contextFiles(root: string): string[] {
  const lines = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n')
  const rules = lines.filter((line) => line !== '' && !line.startsWith('#'))
  const { stdout } = spawnSync('git', ['-C', root, 'ls-files', '-z'], { encoding: 'utf8' })
  const files = stdout.split('\0').filter((path) => path !== '')
  return files.filter((path) => ALWAYS.includes(path) || isIn(path, rules)).sort()
}

/** The last rule that is about the path, or about a folder above, decides. */
function isIn(path: string, rules: readonly string[]): boolean {
  const parts = path.split('/')
  const paths = parts.map((_, at) => parts.slice(0, at + 1).join('/'))
  const last = rules.findLast((rule) => paths.some((each) => matches(each, rule.replace(/^!/, ''))))
  return last?.startsWith('!') ?? true
}

/** As docker does: a star stands for any signs, a first dot included, but not for a slash. */
function matches(path: string, rule: string): boolean {
  const parts = rule.split('*').map((part) => RegExp.escape(part))
  return new RegExp(`^${parts.join('[^/]*')}$`).test(path)
}
