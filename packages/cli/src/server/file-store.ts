/**
 * The place of the bytes of files: a directory, or a bucket of an S3 server. Addresses and keys come from the variables
 * that other programs know as well; the keys also from files (`AWS_SECRET_ACCESS_KEY_FILE`).
 */
import { resolve } from 'node:path'
import { InvalidArgumentError } from 'commander'
import { StaticError } from '@static/protocol'
import type { RelayOptions } from '@static/relay'
import { textOf } from './input-files.ts'
import { secretOf } from './secret.ts'

/** What `--file-store` names. */
export type FileStore = string | { readonly bucket: string; readonly prefix: string }

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
/** Names that every server takes as they are. */
const PREFIX = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/
const MOST_PREFIX = 200

/** Reads the value of `--file-store`. */
export function fileStore(text: string): FileStore {
  const [, scheme, rest = ''] = /^([a-z0-9]+):\/\/(.*)$/.exec(text) ?? []
  if (scheme === undefined) return resolve(text)
  const [bucket = '', ...names] = rest.replace(/\/$/, '').split('/')
  const prefix = names.join('/')
  const isRight = names.length === 0 || (PREFIX.test(prefix) && prefix.length <= MOST_PREFIX)
  if (scheme === 's3' && BUCKET.test(bucket) && isRight) return { bucket, prefix }
  throw new InvalidArgumentError('Expected a directory, or a bucket such as s3://bucket or s3://bucket/static/files.')
}

/** The place with how to reach it. Throws `invalid_request` if a variable is missing or wrong. */
export async function openFileStore(
  store: FileStore,
  spool: string,
): Promise<NonNullable<RelayOptions['files']>['store']> {
  if (typeof store === 'string') return store
  const region = process.env['AWS_REGION'] || process.env['AWS_DEFAULT_REGION'] || 'us-east-1'
  const endpoint =
    process.env['AWS_ENDPOINT_URL_S3'] || process.env['AWS_ENDPOINT_URL'] || `https://s3.${region}.amazonaws.com`
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  if (url?.protocol !== 'https:' || url.pathname !== '/' || url.username !== '' || url.search !== '') {
    throw StaticError.of(
      'invalid_request',
      `The object store ${JSON.stringify(endpoint)} is not an HTTPS address without a path. Set AWS_ENDPOINT_URL_S3 to one.`,
    )
  }
  return {
    ...store,
    endpoint: url.origin,
    region,
    accessKeyId: required('AWS_ACCESS_KEY_ID'),
    secretAccessKey: required('AWS_SECRET_ACCESS_KEY'),
    sessionToken: secretOf('AWS_SESSION_TOKEN'),
    ca: await textOf(process.env['AWS_CA_BUNDLE'] || undefined),
    spool,
  }
}

function required(variable: string): string {
  const value = secretOf(variable)
  if (value !== undefined) return value
  throw StaticError.of(
    'invalid_request',
    `${variable} is not set, and --file-store names a bucket. Set it, or ${variable}_FILE.`,
  )
}
