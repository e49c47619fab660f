/** buildah without a registry, a daemon and a container runtime, with all of its storage in one directory. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { output } from './shell.ts'

const BASE = 'localhost/static-base'
const IMAGE = 'localhost/static'

/** The configuration of an image. */
export interface ImageConfig {
  readonly User: string
  readonly Env: readonly string[]
  readonly WorkingDir: string
  readonly Entrypoint: readonly string[]
  readonly Healthcheck: { readonly Test: readonly string[] }
}

export interface BuiltImage {
  readonly config: ImageConfig
  /** Everything that is stored besides its files: configuration and history. */
  readonly description: string
  /** The directory of its files. */
  readonly files: string
}

function buildah(home: string, ...words: readonly string[]): string {
  const storage = ['--root', join(home, 'storage'), '--runroot', join(home, 'run'), '--storage-driver', 'vfs']
  return output('buildah', [...storage, ...words], { ...process.env, TMPDIR: home })
}

/** Makes a small Debian of this machine's release, from its own sources of packages, and an image of it. */
export function makeBase(home: string): void {
  const [, release = ''] = /^VERSION_CODENAME=(\w+)$/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? []
  const sources = globSync('/etc/apt/{sources.list,sources.list.d/debian.sources}')
  const archive = join(home, 'base.tar')
  output('mmdebstrap', ['--variant=minbase', '--format=tar', release, archive, ...sources], {
    ...process.env,
    TMPDIR: home,
  })
  const container = buildah(home, 'from', 'scratch')
  buildah(home, 'add', '--quiet', container, archive, '/')
  buildah(home, 'commit', '--quiet', '--rm', container, BASE)
}

/** Builds deploy/Dockerfile of a context on that base. */
export function buildImage(home: string, context: string, options: readonly string[]): BuiltImage {
  const file = join(context, 'deploy/Dockerfile')
  // Docker's format, because images of the OCI have no health check.
  const how = ['--isolation', 'chroot', '--format', 'docker', '--pull=never', '--build-arg', `BASE=${BASE}`]
  buildah(home, 'build', ...how, ...options, '--file', file, '--tag', IMAGE, context)
  const description = buildah(home, 'inspect', '--type', 'image', IMAGE)
  const { Docker } = JSON.parse(description) as { Docker: { config: ImageConfig } }
  const container = buildah(home, 'from', '--pull=never', IMAGE)
  return { config: Docker.config, description, files: buildah(home, 'mount', container) }
}
