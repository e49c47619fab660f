/** `npm run proof -- house`: figures of the source of each package. Fails at an import circle, an `any` or a copy. */
import { resolve } from 'node:path'
import { copiesBetween, type Figures, figuresOf, readPackages } from '../lab/house/figures.ts'
import { fail } from './step.ts'

const root = resolve(import.meta.dirname, '..')
const packages = readPackages(root)
const figures = packages.map(figuresOf)
const COLUMNS: readonly (readonly [title: string, value: (figures: Figures) => string])[] = [
  ['package', ({ name }) => name],
  ['files', ({ files }) => String(files)],
  ['lines', ({ lines }) => String(lines)],
  ['largest file', ({ largestFile: { name, lines } }) => `${name} (${lines})`],
  ['largest class', ({ largestClass }) => (largestClass ? `${largestClass.name} (${largestClass.lines})` : 'none')],
  ['most public members', ({ mostPublic }) => (mostPublic ? `${mostPublic.name} (${mostPublic.members})` : 'none')],
  ['import circles', ({ circles }) => String(circles.length)],
  ['any', ({ anys }) => String(anys.length)],
]
const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`
process.stdout.write(line(COLUMNS.map(([title]) => title)))
process.stdout.write(line(COLUMNS.map(() => '---')))
for (const each of figures) process.stdout.write(line(COLUMNS.map(([, value]) => value(each))))
const copies = copiesBetween(packages)
process.stdout.write(`\nCopies of six or more lines between packages: ${copies.length}\n`)
const faults = [...figures.flatMap(({ circles, anys }) => [...circles, ...anys]), ...copies]
if (faults.length > 0) fail(faults.join('\n'))
