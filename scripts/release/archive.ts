/** The archive: the `static` command, with its packages and Node, for machines without either. */
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { BUNDLED } from './bundled.ts'
import { runtimePaths } from '../../lab/supply/lock-file.ts'

/** Packages that only build the console's page. */
const BUILDS_PAGE = new Set(['preact', 'vite'])
/** Other people's files that are not for running: types, maps and sources. Licences stay. */
const UNUSED = /\.(?:d\.[cm]?ts|map|[cm]?ts|tsx|c|cc|cpp|h|hpp|gyp|gypi|md|markdown)$/i
/** A library that Node is linked with, and that small machines do not have. */
const ATOMIC = 'libatomic.so.1'

const COMMAND = `#!/bin/sh
# The \`static\` command, run by the Node in this folder.
here=$(dirname -- "$(readlink -f -- "$0")")
has() { for file; do [ -e "$file" ] && return; done; return 1; }
has /lib/*/${ATOMIC} /usr/lib/*/${ATOMIC} /lib64/${ATOMIC} /usr/lib64/${ATOMIC} /usr/lib/${ATOMIC} ||
  export LD_LIBRARY_PATH="$here/lib\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$here/bin/node" "$here/lib/node_modules/@static/cli/dist/main.js" "$@"
`

/** Where everything comes from, and where it goes. */
interface Sources {
  readonly root: string
  /** The output of scripts/pack.ts. */
  readonly packed: string
  /** The program. */
  readonly node: string
  readonly folder: string
}

/** Assembles the content of the archive. */
export async function assembleArchive({ root, packed, node, folder }: Sources): Promise<void> {
  const { ownBinaries } = (await import(join(root, 'scripts/install.mjs'))) as {
    readonly ownBinaries: (names: readonly string[]) => readonly string[]
  }
  const modules = join(folder, 'lib/node_modules')
  mkdirSync(join(folder, 'bin'), { recursive: true })
  mkdirSync(modules, { recursive: true })
  const parts = ['api', 'cli', 'console', 'node', 'protocol', 'quic', 'relay', 'sdk']
  for (const part of parts) {
    const from = join(packed, part)
    const filter = (path: string): boolean => relative(from, path) !== 'node_modules'
    cpSync(from, join(modules, '@static', part), { recursive: true, filter })
  }
  const bundled = parts.flatMap((part) => (BUNDLED[part] ?? []).map((name) => [`node_modules/${name}`, part] as const))
  const homeOf = new Map<string, string>(bundled.map(([path, part]) => [path, join(packed, part)]))
  const workspaces = parts.map((part) => `packages/${part}`)
  for (const path of runtimePaths(root, workspaces, BUILDS_PAGE)) {
    // Packages for other machines are not installed.
    if (!existsSync(join(root, path))) continue
    const place = path
      .replace(/^packages\/(\w+)\/node_modules\//, '@static/$1/node_modules/')
      .replace(/^node_modules\//, '')
    copyPackage(join(homeOf.get(path) ?? root, path), join(modules, place), ownBinaries)
  }
  copyFileSync(node, join(folder, 'bin/node'))
  chmodSync(join(folder, 'bin/node'), 0o755)
  const license = join(dirname(node), '../LICENSE')
  if (existsSync(license)) copyFileSync(license, join(folder, 'bin/LICENSE'))
  const [library] = globSync([`/usr/lib/*/${ATOMIC}`, `/usr/lib64/${ATOMIC}`])
  if (library === undefined) throw new Error(`This machine has no ${ATOMIC}. Install it (on Debian: libatomic1).`)
  copyFileSync(realpathSync(library), join(folder, 'lib', ATOMIC))
  writeFileSync(join(folder, 'static'), COMMAND, { mode: 0o755 })
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  writeFileSync(join(folder, 'README.md'), readme(version))
  if (existsSync(join(root, 'LICENSE'))) copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
}

function readme(version: string): string {
  return `# Static ${version}

Private channels for software agents. This folder has the \`static\` command with all that it needs. Put the folder first in
your PATH, or link to \`static\` from a folder that is in it:

    export PATH="$PWD:$PATH"
    static --help

With an invite link, \`static channel join\` is all that you need. \`static up\` starts a server of your own, and \`static signup\`
makes an account on it.
`
}

/** Copies what runs of a package, without packages inside it and machine code for other machines. */
function copyPackage(from: string, to: string, ownBinaries: (names: readonly string[]) => readonly string[]): void {
  cpSync(from, to, {
    recursive: true,
    filter: (path) => {
      const place = relative(from, path)
      if (place === 'node_modules' || (UNUSED.test(path) && !/^licen[cs]e/i.test(basename(path)))) return false
      return place === '' || ownBinaries(readdirSync(dirname(path))).includes(basename(path))
    },
  })
}
