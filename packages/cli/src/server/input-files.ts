/** Files that the operator names by a flag: settings, tokens, certificates. */
import { readFile } from 'node:fs/promises'
import { StaticError } from '@static/protocol'
import { readPrivateFile } from '@static/node/files'
import type { StateFlags } from './flags.ts'

/** The token that lets others read the metrics. */
export async function metricsTokenOf({ metricsToken }: StateFlags): Promise<string | undefined> {
  return metricsToken === undefined ? undefined : readToken(metricsToken)
}

/** The numbers of a settings file. */
export async function settingsOf(path: string | undefined): Promise<unknown> {
  return path === undefined ? undefined : readJson(path)
}

/** A file of PEM or other text, if one is named. */
export async function textOf(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : readText(path)
}

/** A secret from a file that nobody else may read. */
export async function readToken(path: string): Promise<string> {
  const token = readPrivateFile(path)?.toString().trim() ?? ''
  if (token === '') throw StaticError.of('invalid_request', `The file ${path} does not exist or is empty.`)
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
 * A text file.
 *
 * @throws {StaticError} `invalid_request` when it cannot be read
 */
export async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw StaticError.of('invalid_request', `The file ${path} cannot be read.`, { cause })
  }
}
