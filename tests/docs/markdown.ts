/** What the tests of the documentation read out of a page: snippets, links and headings. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const ROOT: string = resolve(import.meta.dirname, '../..')

/** A fenced block of a page. */
export interface Snippet {
  /** `page#heading language number`: number counts the snippets of that language under that heading, from 1. */
  readonly name: string
  readonly page: string
  readonly language: string
  readonly code: string
}

/** The pages for users. */
export function pages(): string[] {
  const docs = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'))
  return ['README.md', ...docs.sort().map((name) => `docs/${name}`), 'python/README.md']
}

/** A page as it stands there. */
export function read(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8')
}

/** The snippets of a page, in order. */
export function snippetsOf(page: string): Snippet[] {
  const found: Snippet[] = []
  const counts = new Map<string, number>()
  let heading = ''
  let open: { readonly language: string; readonly lines: string[] } | undefined
  for (const line of read(page).split('\n')) {
    const fence = /^```(.*)$/.exec(line)
    if (open && fence) {
      const key = `${page}#${heading} ${open.language}`
      const count = (counts.get(key) ?? 0) + 1
      counts.set(key, count)
      found.push({ name: `${key} ${count}`, page, language: open.language, code: open.lines.join('\n') })
      open = undefined
    } else if (open) open.lines.push(line)
    else if (fence) open = { language: fence[1] ?? '', lines: [] }
    else heading = /^#+ (.*)$/.exec(line)?.[1] ?? heading
  }
  return found
}

/** A page without its fenced blocks. */
export function proseOf(page: string): string {
  return read(page).replaceAll(/^```[\s\S]*?^```$/gm, '')
}

/** What the links of a page lead to. */
export function linksOf(page: string): string[] {
  // Code may hold what looks like a link.
  const text = proseOf(page).replaceAll(/`[^`\n]*`/g, 'code')
  return [...text.matchAll(/\]\(([^()\s]+)\)/g)].map(([, target = '']) => target)
}

/** What `#…` can be behind a page, as GitHub makes it from the headings. */
export function anchorsOf(page: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading = ''] of proseOf(page).matchAll(/^#+ (.*)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
      .replaceAll(' ', '-')
    let anchor = slug
    for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${count}`
    anchors.add(anchor)
  }
  return anchors
}
