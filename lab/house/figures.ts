/**
 * Figures of a package's source. They are read from the text, which the formatter has brought into one form: a class at
 * the margin ends with a brace at the margin, and its members are indented by two spaces.
 */
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** A source file. */
interface Source {
  /** From the root of the project. */
  readonly path: string
  readonly lines: readonly string[]
}

/** The hand-written source of a package. */
export interface PackageSource {
  readonly name: string
  readonly sources: readonly Source[]
}

/** The figures of a package. */
export interface Figures {
  readonly name: string
  readonly files: number
  readonly lines: number
  readonly largestFile: { readonly name: string; readonly lines: number }
  readonly largestClass: ClassFigures | undefined
  readonly mostPublic: ClassFigures | undefined
  /** Import circles, each as the files that it leads through; imports of types count. */
  readonly circles: readonly string[]
  /** Where `any` is used as a type. */
  readonly anys: readonly string[]
}

interface ClassFigures {
  readonly name: string
  readonly lines: number
  /** Public methods, accessors and fields; not the constructor. */
  readonly members: number
}

const CLASS = /^(?:export )?(?:abstract )?class (\w+)/
const PRIVATE = /^ {2}(?:private |protected |constructor\b|#)/
const MEMBER =
  /^ {2}(?:static |override |abstract |readonly |accessor |async |get |set |\*)*(?:\w+|\[[^\]]+\])[?!]?(?:[(<:=]| =|$)/
const IMPORT = /(?:^|\})(?:import|export)?[^'"]*\bfrom '(\.[^']+)'|^import '(\.[^']+)'/
const ANY = /(?::|\bas|[<,|&]) ?any\b/
const COMMENT = /^(?:\/\/|\/?\*)/
/** Sentences may say "any". */
const TEXT = /'[^']*'/g
/** Lines that say little: punctuation, or a list of names that an import or export has. */
const THIN = /^(?:\W*|(?:type )?\w+,?)$/
const COPY_LINES = 6
/**
 * Parts of a channel name the type of the whole, so that a reader finds what they ask of each other. That closes no
 * circle of modules, because types are erased.
 */
const WHOLE = 'packages/sdk/src/channel/channel.ts'

/** The packages of the project at `root`. */
export function readPackages(root: string): PackageSource[] {
  const paths = globSync('packages/*/src/**/*.{ts,tsx}', { cwd: root }).filter((path) => !path.includes('/src/gen/'))
  const byName = Map.groupBy(paths.sort(), (path) => path.split('/')[1] ?? '')
  return [...byName].map(([name, files]) => ({
    name,
    sources: files.map((path) => ({ path, lines: readFileSync(join(root, path), 'utf8').split('\n').slice(0, -1) })),
  }))
}

export function figuresOf({ name, sources }: PackageSource): Figures {
  const classes = sources.flatMap(classesOf)
  const largest = sources.toSorted((a, b) => b.lines.length - a.lines.length)[0]
  return {
    name,
    files: sources.length,
    lines: sources.reduce((sum, { lines }) => sum + lines.length, 0),
    largestFile: { name: basename(largest?.path ?? ''), lines: largest?.lines.length ?? 0 },
    largestClass: classes.toSorted((a, b) => b.lines - a.lines)[0],
    mostPublic: classes.toSorted((a, b) => b.members - a.members)[0],
    circles: circlesOf(sources),
    anys: sources.flatMap(({ path, lines }) =>
      lines.flatMap((line, at) =>
        ANY.test(line.replaceAll(TEXT, '')) && !COMMENT.test(line.trim()) ? [`${path}:${at + 1}`] : [],
      ),
    ),
  }
}

/** Where six or more lines in a row stand in two packages. Imports, comments and blank lines do not count. */
export function copiesBetween(packages: readonly PackageSource[]): string[] {
  const seen = new Map<string, { readonly name: string; readonly place: string }>()
  const copies: string[] = []
  for (const { name, sources } of packages) {
    for (const { path, lines } of sources) {
      const said = lines.flatMap((line, at) => (isSaying(line) ? [{ text: line.trim(), at }] : []))
      for (let from = 0; from + COPY_LINES <= said.length; from++) {
        const run = said.slice(from, from + COPY_LINES)
        if (run.filter(({ text }) => !THIN.test(text)).length < COPY_LINES - 2) continue
        const text = run.map((each) => each.text).join('\n')
        const place = `${path}:${(run[0]?.at ?? 0) + 1}`
        const first = seen.get(text)
        if (!first) seen.set(text, { name, place })
        else if (first.name !== name) copies.push(`${first.place} and ${place} are the same`)
      }
    }
  }
  return copies
}

function isSaying(line: string): boolean {
  const text = line.trim()
  return text !== '' && !COMMENT.test(text) && !text.startsWith('import ') && !text.startsWith("} from '")
}

function classesOf({ lines }: Source): ClassFigures[] {
  return lines.flatMap((line, at) => {
    const name = CLASS.exec(line)?.[1]
    if (name === undefined) return []
    const end = lines.indexOf('}', at)
    const body = lines.slice(at + 1, end)
    const members = body.filter((each) => MEMBER.test(each) && !PRIVATE.test(each))
    // A getter and a setter, and the overloads of a method, are one member.
    const names = new Set(members.map((each) => /(\w+|\[[^\]]+\])[?!]?(?:[(<:=]| =|$)/.exec(each)?.[1]))
    return [{ name, lines: end - at + 1, members: names.size }]
  })
}

/** The circles of imports within a package, found in depth-first order. */
function circlesOf(sources: readonly Source[]): string[] {
  const imports = new Map(sources.map((source) => [source.path, importsOf(source)]))
  const done = new Set<string>()
  const circles: string[] = []
  const visit = (path: string, way: readonly string[]): void => {
    const at = way.indexOf(path)
    if (at >= 0) circles.push([...way.slice(at), path].join(' → '))
    if (at >= 0 || done.has(path)) return
    for (const next of imports.get(path) ?? []) visit(next, [...way, path])
    done.add(path)
  }
  for (const path of imports.keys()) visit(path, [])
  return circles
}

function importsOf({ path, lines }: Source): string[] {
  return lines.flatMap((line) => {
    const found = IMPORT.exec(line)
    const specifier = found?.[1] ?? found?.[2]
    if (specifier === undefined) return []
    const target = join(dirname(path), specifier)
    return target === WHOLE && line.startsWith('import type ') ? [] : [target]
  })
}
