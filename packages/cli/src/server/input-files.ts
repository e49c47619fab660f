/** Files that the operator passes with flags: settings, tokens, certificates. */
import { readFile } from 'node:fs/promises'
import { StaticError } from '@static/protocol'
import { readPrivateFile } from '@static/node/files'
import type { StateFlags } from './flags.ts'

/** The token that allows other machines to read the metrics. */
export async function metricsTokenOf({ metricsToken }: StateFlags): Promise<string | undefined> {
  return metricsToken === undefined ? undefined : readToken(metricsToken)
}

/** The content of a settings file. */
export async function settingsOf(path: string | undefined): Promise<unknown> {
  return path === undefined ? undefined : readJson(path)
}

/** The content of a text file, such as PEM; undefined without a path. */
export async function textOf(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : readText(path)
}

/** Reads a secret from a file that only its owner may access. */
export async function readToken(path: string): Promise<string> {
  const token = readPrivateFile(path)?.toString().trim() ?? ''
  if (token === '') throw StaticError.of('invalid_request', `File ${path} does not exist or is empty.`)
  return token
}

async function readJson(path: string): Promise<unknown> {
  const text = await readText(path)
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw StaticError.of('invalid_request', `${path} is not valid JSON.`, { cause })
  }
}

/**
 * Reads a text file.
 *
 * @throws {StaticError} `invalid_request` if it cannot be read
 */
export async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw StaticError.of('invalid_request', `Cannot read file ${path}. Check that it exists and is readable.`, {
      cause,
    })
  }
}
