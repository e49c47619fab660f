/**
 * `npm run pack`: builds every package as npm would publish it, in `.cache/pack/*.tgz`; an argument after `--` names
 * another folder.
 *
 * A checkout runs TypeScript directly, but Node does not strip types below node_modules, so packages contain JavaScript
 * with declarations. Each package is assembled in its own folder, from its package.json and src/. Types are not checked
 * here; `npm run check` does that.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { BUNDLED, bundlePackage } from './release/bundled.ts'
import { fail, say } from './step.ts'

/** The fields of package.json that matter here; the rest is copied unchanged. */
interface Manifest {
  readonly name: string
  readonly private?: boolean
  readonly license?: string
  readonly repository?: unknown
  readonly exports?: Readonly<Record<string, string>>
  /** By condition. */
  readonly imports?: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly bin?: Readonly<Record<string, string>>
  readonly files?: readonly string[]
  readonly scripts?: unknown
  readonly dependencies?: unknown
  readonly devDependencies?: unknown
}

/** An entry in the output of `npm pack --json`. */
interface Packed {
  readonly id: string
  readonly filename: string
  readonly size: number
  readonly unpackedSize: number
  readonly entryCount: number
}

/** What a packed package contains. */
interface Contents {
  readonly files: readonly string[]
  readonly isCompiled: boolean
  /** Packages of others. */
  readonly bundled: readonly string[]
}

const root = resolve(import.meta.dirname, '..')
const house = readManifest(root)
const target = resolve(process.argv[2] ?? join(root, '.cache/pack'))
const compiled = join(target, 'compiled')
/** The entry that only `@static/testkit` may import. */
const INTERNAL = './src/internal.ts'

rmSync(target, { recursive: true, force: true })
mkdirSync(target, { recursive: true })
compile()
const stages = readdirSync(join(root, 'packages')).flatMap(stage)
rmSync(compiled, { recursive: true })
for (const { id, entryCount, size, unpackedSize, filename } of npmPack(stages)) {
  const [packed, unpacked] = [size, unpackedSize].map((bytes) => `${(bytes / 1024).toFixed(0)} KiB`)
  say(`${id}: ${entryCount} files, ${packed} (${unpacked} unpacked), ${join(target, filename)}`)
}
say(`The SDK for another project: npm install ${join(target, 'static-{node,protocol,sdk}-*.tgz')}`)

/** Compiles every src/ at once into `compiled`. */
function compile(): void {
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const words = [compiler, '-p', join(root, 'tsconfig.pack.json'), '--outDir', compiled]
  if (spawnSync(process.execPath, words, { stdio: 'inherit' }).status !== 0)
    fail('Compiling the packages failed; see the errors above.')
}

/** Assembles a package and returns its folder; nothing for a private package. */
function stage(folder: string): string[] {
  const home = join(root, 'packages', folder)
  const own = readManifest(home)
  if (own.private === true) return []
  const place = join(target, folder)
  mkdirSync(place)
  const isCompiled = existsSync(join(compiled, folder, 'src'))
  if (isCompiled) {
    renameSync(join(compiled, folder, 'src'), join(place, 'dist'))
    for (const ending of ['.js', '.d.ts'] as const) rmSync(join(place, built(INTERNAL, ending)), { force: true })
    // Commands start with JavaScript files, which the compiler leaves out.
    for (const name of globSync('**/*.js', { cwd: join(home, 'src') }))
      cpSync(join(home, 'src', name), join(place, 'dist', name))
    finish(join(place, 'dist'))
  }
  for (const name of own.files ?? []) {
    if (!existsSync(join(home, name)))
      fail(`${own.name} is missing ${name}. Run \`npm run pack\`, which builds it first.`)
    cpSync(join(home, name), join(place, name), { recursive: true })
  }
  for (const name of ['README.md', 'LICENSE']) {
    const source = [home, root].map((at) => join(at, name)).find((path) => existsSync(path))
    if (source !== undefined) cpSync(source, join(place, name))
  }
  const bundled = BUNDLED[folder] ?? []
  for (const name of bundled) bundlePackage(root, name, place)
  const files = [...(own.files ?? []), ...(isCompiled ? ['dist'] : [])]
  writeFileSync(
    join(place, 'package.json'),
    `${JSON.stringify(published(own, { files, isCompiled, bundled }), null, 2)}\n`,
  )
  setModes(place)
  return [place]
}

/** npm packs the modes of files, which depend on the umask of the clone: others could not read what they install. */
function setModes(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const file = join(entry.parentPath, entry.name)
    chmodSync(file, statSync(file).mode & 0o100 ? 0o755 : 0o644)
  }
}

/**
 * The published package.json: the package's own, with the licence of the repository and the compiled files. The console
 * is not compiled but built: its page contains what it depends on.
 */
function published(own: Manifest, { files, isCompiled, bundled }: Contents): object {
  const { scripts: _, dependencies, devDependencies: __, exports = {}, imports, bin, ...rest } = own
  const { license, repository } = house
  return {
    ...rest,
    license,
    ...(repository === undefined ? {} : { repository }),
    ...(bin === undefined ? {} : { bin: mapValues(bin, (path) => built(path, '.js')) }),
    ...(imports === undefined ? {} : { imports: mapValues(imports, builtConditions) }),
    exports: mapValues(withoutInternal(exports), (path) =>
      path.endsWith('.ts') ? { types: built(path, '.d.ts'), default: built(path, '.js') } : path,
    ),
    files,
    ...(isCompiled ? { dependencies } : {}),
    ...(bundled.length > 0 ? { bundleDependencies: bundled } : {}),
  }
}

/** The public exports, without the entry for the test kit. */
function withoutInternal(exports: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(exports).filter(([, path]) => path !== INTERNAL))
}

/** The path of a source file after compilation. */
function built(path: string, ending: '.js' | '.d.ts'): string {
  return path.replace(/^\.\/src\/(.*)\.[jt]s$/, `./dist/$1${ending}`)
}

/** The paths of an import of the package's own, by condition, after compilation. */
function builtConditions(paths: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return mapValues(paths, (path) => built(path, '.js'))
}

/**
 * Rewrites `.ts` paths to `.js` where the compiler leaves them: in declarations, and in the URLs of workers.
 */
function finish(folder: string): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const file = join(folder, name)
    if (!/\.[jt]s$/.test(name)) continue
    const text = readFileSync(file, 'utf8').replaceAll(
      /(['"])(\.\.?\/[^'"\n]*)\.ts\1/g,
      (_, quote: string, path: string) => {
        if (!existsSync(join(dirname(file), `${path}.js`)))
          fail(`${file} refers to ${path}.ts, which is not in the package.`)
        return `${quote}${path}.js${quote}`
      },
    )
    const left = /^.*(?:\.ts['"]|`\.\.?\/.*\.ts`).*$/m.exec(text)
    if (left) fail(`${file} still refers to a .ts file: ${left[0].trim()}`)
    writeFileSync(file, text)
  }
}

function npmPack(folders: readonly string[]): Packed[] {
  const words = ['pack', ...folders, '--pack-destination', target, '--json', '--ignore-scripts', '--loglevel=error']
  const done = spawnSync('npm', words, { cwd: target, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
  if (done.status !== 0) fail('`npm pack` failed; see its output above.')
  return JSON.parse(done.stdout) as Packed[]
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

function mapValues<Given, Value>(
  table: Readonly<Record<string, Given>>,
  change: (value: Given) => Value,
): Record<string, Value> {
  return Object.fromEntries(Object.entries(table).map(([name, value]) => [name, change(value)]))
}
