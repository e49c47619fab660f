/**
 * Runs programs of an image as Docker, compose.yaml and Kubernetes do: in namespaces of their own, with a read-only
 * root, as the user of the image, without capabilities. buildah's chroot isolation has only the user, so this is made
 * of unshare, mount and chroot.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { BuiltImage } from './buildah.ts'
import { output } from './shell.ts'

/** Mounts what a container has, then becomes the program. Arguments: root, data, hosts, then the program. */
const INSIDE = `
root=$1 data=$2 hosts=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for name in null zero full random urandom tty; do
  : > "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t tmpfs -o mode=1777,size=64m,noexec tmp "$root/tmp"
mount --bind "$data" "$root/var/lib/static"
mount --bind "$hosts" "$root/etc/hosts"
mount -o remount,bind,ro "$root"
ip link set lo up
exec chroot "$root" "$@"
`
/** The grace period of `docker stop`. */
const STOP_MS = 10_000
const LINE_MS = 30_000
const NAMESPACES = ['--mount', '--net', '--pid', '--ipc', '--uts', '--fork', '--kill-child']

/** An image with a volume for its data. */
export class Machine {
  readonly #image: BuiltImage
  readonly #volumes: readonly string[]

  constructor(image: BuiltImage, home: string) {
    this.#image = image
    const [data, hosts] = [join(home, 'data'), join(home, 'hosts')]
    mkdirSync(data, { mode: 0o700 })
    const [uid, gid] = this.#user()
    chownSync(data, Number(uid), Number(gid))
    writeFileSync(hosts, '127.0.0.1 localhost\n::1 localhost\n')
    // There must be something to mount it over.
    writeFileSync(join(image.files, 'etc/hosts'), '')
    this.#volumes = [data, hosts]
  }

  /** Runs a program of the image to its end and returns its output. */
  run(...words: readonly string[]): string {
    return output('unshare', this.#inside(words))
  }

  /** Starts the image, as `docker run IMAGE WORDS…` does. */
  async start(...words: readonly string[]): Promise<Server> {
    const child = spawn('unshare', this.#inside([...this.#image.config.Entrypoint, ...words]), {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    await once(child, 'spawn')
    return new Server(child, (of) => this.#asUser(of))
  }

  #user(): readonly [string, string] {
    const [uid = '', gid = ''] = this.#image.config.User.split(':')
    return [uid, gid]
  }

  #inside(words: readonly string[]): string[] {
    return [...NAMESPACES, 'sh', '-euc', INSIDE, 'sh', this.#image.files, ...this.#volumes, ...this.#asUser(words)]
  }

  /** The words that run a program as the user of the image, in its directory, with its environment. */
  #asUser(words: readonly string[]): string[] {
    const { Env, WorkingDir } = this.#image.config
    const [uid, gid] = this.#user()
    const rights = ['--reuid', uid, '--regid', gid, '--clear-groups', '--no-new-privs', '--bounding-set', '-all']
    // As a runtime of containers sets it from /etc/passwd.
    const env = [...Env, 'HOME=/var/lib/static']
    return ['setpriv', ...rights, 'env', '-i', '-C', WorkingDir, ...env, ...words]
  }
}

/** A running image. */
export class Server {
  readonly #unshare: ChildProcess
  readonly #asUser: (words: readonly string[]) => string[]
  #log = ''

  constructor(unshare: ChildProcess, asUser: (words: readonly string[]) => string[]) {
    this.#unshare = unshare
    this.#asUser = asUser
    for (const stream of [unshare.stdout, unshare.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#log += text
      })
    }
  }

  /** Its output so far. */
  get log(): string {
    return this.#log
  }

  /** What the kernel knows about its first process: user, capabilities and so on. */
  status(): Map<string, string> {
    const text = readFileSync(`/proc/${this.#first()}/status`, 'utf8')
    return new Map(text.split('\n').map((line) => [line.split(':', 1)[0] ?? '', line.split('\t').slice(1).join(' ')]))
  }

  /** Waits until a program beside the server, such as its health check, ends with 0. */
  async until(words: readonly string[], limitMs: number): Promise<void> {
    const end = performance.now() + limitMs
    for (;;) {
      try {
        const spaces = ['--target', this.#first(), '--mount', '--net', '--pid', '--ipc', '--uts', '--root']
        output('nsenter', [...spaces, ...this.#asUser(words)])
        return
      } catch (error) {
        const isOver = this.#unshare.exitCode !== null || performance.now() > end
        if (isOver) throw new Error(`${(error as Error).message}\n${this.#log}`, { cause: error })
      }
      await pause(250)
    }
  }

  /** Waits until it has printed a text. */
  async printed(text: string): Promise<void> {
    const signal = AbortSignal.timeout(LINE_MS)
    while (!this.#log.includes(text)) {
      await Promise.race([
        once(this.#unshare.stdout ?? this.#unshare, 'data', { signal }),
        once(this.#unshare.stderr ?? this.#unshare, 'data', { signal }),
      ]).catch((cause: unknown) => {
        throw new Error(`The server did not print ${JSON.stringify(text)}:\n${this.#log}`, { cause })
      })
    }
  }

  /** Stops it as `docker stop` does, and resolves to its exit code; to nothing if it had to be killed. */
  async stop(): Promise<number | null> {
    const ended = once(this.#unshare, 'close')
    process.kill(Number(this.#first()), 'SIGTERM')
    const killing = setTimeout(() => this[Symbol.dispose](), STOP_MS)
    const [code] = (await ended) as [number | null]
    clearTimeout(killing)
    return code
  }

  /** Kills it in any state. */
  [Symbol.dispose](): void {
    this.#unshare.kill('SIGKILL')
  }

  /** The id of its first process, outside of its namespace. */
  #first(): string {
    const { pid } = this.#unshare
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  }
}
