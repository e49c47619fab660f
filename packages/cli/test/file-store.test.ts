/** Where the bytes of files are, as flags and the environment say. */
import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { fileStore, openFileStore } from '../src/server/file-store.ts'

const KEYS = { AWS_ACCESS_KEY_ID: 'AKID', AWS_SECRET_ACCESS_KEY: 'secret' }

/** Opens a bucket with these variables alone. */
async function open(variables: Record<string, string>): Promise<unknown> {
  const before = { ...process.env }
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name]
  Object.assign(process.env, variables)
  try {
    return await openFileStore(fileStore('s3://bucket/static'), '/spool')
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name]
    Object.assign(process.env, before)
  }
}

test('the place is a directory or a bucket, and anything else is refused', () => {
  assert.equal(fileStore('files'), resolve('files'))
  assert.deepEqual(fileStore('s3://my.bucket'), { bucket: 'my.bucket', prefix: '' })
  assert.deepEqual(fileStore('s3://bucket/a/b-1/'), { bucket: 'bucket', prefix: 'a/b-1' })
  const wrong = [
    's3://',
    's3://UPPER',
    's3://bucket//',
    's3://bucket/../x',
    's3://bucket/a b',
    's3://bucket/a?b',
    'gs://bucket',
  ]
  for (const text of wrong) assert.throws(() => fileStore(text), /Expected a directory, or a bucket/, text)
})

test('a bucket is reached over HTTPS, with the keys of the environment', async () => {
  const common = { bucket: 'bucket', prefix: 'static', accessKeyId: 'AKID', secretAccessKey: 'secret', spool: '/spool' }
  const given = { ...common, sessionToken: undefined, ca: undefined }
  const aws = { ...given, region: 'eu-central-1', endpoint: 'https://s3.eu-central-1.amazonaws.com' }
  assert.deepEqual(await open({ ...KEYS, AWS_REGION: 'eu-central-1' }), aws)
  const own = { ...given, region: 'us-east-1', endpoint: 'https://s3.example.com:9000', sessionToken: 'token' }
  const place = { AWS_ENDPOINT_URL_S3: 'https://s3.example.com:9000/', AWS_ENDPOINT_URL: 'https://other.example' }
  assert.deepEqual(await open({ ...KEYS, ...place, AWS_SESSION_TOKEN: 'token' }), own)
  for (const address of ['http://s3.example.com', 'https://s3.example.com/bucket', 'https://me@s3.example.com', 's3']) {
    await assert.rejects(open({ ...KEYS, AWS_ENDPOINT_URL: address }), { code: 'invalid_request' }, address)
  }
  await assert.rejects(open({ AWS_ACCESS_KEY_ID: 'AKID' }), {
    code: 'invalid_request',
    message: /AWS_SECRET_ACCESS_KEY/,
  })
})
