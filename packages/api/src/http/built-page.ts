/** The built console: read once, kept in memory. */
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'

/** A file of the console, plain and compressed. */
export interface PageFile {
  readonly type: string
  readonly body: Buffer
  readonly gzip: Buffer
}

/** The page and the files it loads, by name. */
export interface BuiltPage {
  readonly index: PageFile
  readonly assets: ReadonlyMap<string, PageFile>
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Reads the output directory of Vite; undefined if the console was not built. */
export async function readBuiltPage(directory: string): Promise<BuiltPage | undefined> {
  try {
    const index = await readPageFile(join(directory, 'index.html'))
    const names = await readdir(join(directory, 'assets'))
    const files = names.map(async (name) => [name, await readPageFile(join(directory, 'assets', name))] as const)
    return { index, assets: new Map(await Promise.all(files)) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function readPageFile(path: string): Promise<PageFile> {
  const body = await readFile(path)
  return { type: TYPES[extname(path)] ?? 'application/octet-stream', body, gzip: gzipSync(body) }
}
