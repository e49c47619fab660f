/**
 * A person who follows a page: types its commands into one terminal, and into a terminal of its own whatever goes on
 * running. The home directory is new; the directory stands for a clone of the repository.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PYTHON } from '../python/installed.ts'
import type { Workspace } from '@static/testkit/server/workspace'
import { ROOT, type Snippet } from './markdown.ts'

const TERMINAL = join(ROOT, 'tests/cli/terminal.py')
const LATEST = 120_000
/** Commands that run until somebody ends them, and what they say when they are ready. */
const SERVES =
  /(?:^|\n)(?:npm start|(?:npx )?static (?:up|api|relay|proxy) |(?:npx )?static channel listen (?!.*--count))/
const READY = /(?:^|\n)ready\n|static: listening on /
/** What a command asks, and what is typed then. */
const ANSWERS = [
  ['E-mail:', 'you@example.com\r'],
  ['Password', 'choose a good one\r'],
  ['Password again:', 'choose a good one\r'],
]

/** What a page says, and what it means on this machine. */
export type Meaning = readonly [said: string | RegExp, meant: string]

/** Where a person reads. */
export interface ReaderOptions {
  readonly workspace: Workspace
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly meanings?: readonly Meaning[]
}

/** The person. */
export class Reader implements AsyncDisposable {
  readonly home: string
  readonly directory: string
  /** More of them can be learnt on the way. */
  readonly meanings: Meaning[]
  readonly #env: Readonly<Record<string, string | undefined>>
  /** What each terminal has shown, one for each snippet. */
  readonly #terminals: { shown: string }[] = []
  readonly #running: { readonly child: ChildProcess; readonly isServer: boolean }[] = []
  #printed = ''
  #heard: (() => void) | undefined
  #programs = 0

  constructor({ workspace, env, meanings = [] }: ReaderOptions) {
    this.home = workspace.directory('home')
    this.directory = workspace.directory('clone')
    for (const name of readdirSync(ROOT)) {
      if (name !== '.git' && name !== '.cache') symlinkSync(join(ROOT, name), join(this.directory, name))
    }
    this.meanings = [...meanings]
    const { PATH, NODE_COMPILE_CACHE, LD_LIBRARY_PATH } = process.env
    this.#env = {
      PATH,
      NODE_COMPILE_CACHE,
      LD_LIBRARY_PATH,
      HOME: this.home,
      TMPDIR: workspace.path,
      LANG: 'C.UTF-8',
      ...env,
    }
  }

  /** Everything that the terminals have shown. */
  get printed(): string {
    return this.#printed
  }

  /** Whether a text is all that one of the terminals has shown; `…` stands for anything within a line. */
  isWholeTerminal(text: string): boolean {
    const whole = new RegExp(`^${sourceOf(`${text}\n`)}$`)
    return this.#terminals.some(({ shown }) => whole.test(shown))
  }

  /** Does what a snippet is for. */
  async follow({ language, code, name }: Snippet): Promise<void> {
    try {
      if (language === 'sh' && SERVES.test(code)) await this.#serve(code)
      else if (language === 'sh') await this.shell(code)
      else if (language === 'ts') await this.#program('.ts', code, process.execPath)
      else if (language === 'python') await this.#program('.py', code, PYTHON)
      else if (language === 'text') await this.#sees(code)
    } catch (error) {
      throw new Error(`${name}: ${String(error)}`, { cause: error })
    }
  }

  /** Types commands and waits for their end; what they set holds for those that follow. Gives what they printed. */
  async shell(code: string): Promise<string> {
    const script = this.#script(code)
    const asks = code.endsWith('static signup')
    const words = asks ? [PYTHON, TERMINAL, JSON.stringify(ANSWERS), 'bash', '-c', script] : ['bash', '-c', script]
    return await this.#run(words, asks ? { TERM: 'xterm-256color' } : {})
  }

  /** Ends what a page has started; the server of `npm start` goes on until the reader is done. */
  async endPage(): Promise<void> {
    await this.#end(({ isServer }) => !isServer)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end(() => true)
  }

  /** A text as it is meant here. */
  here(text: string): string {
    return this.meanings.reduce((words, [said, meant]) => words.replaceAll(said, meant), text)
  }

  async #program(ending: string, code: string, program: string): Promise<void> {
    const file = join(this.directory, `program-${++this.#programs}${ending}`)
    writeFileSync(file, this.here(code))
    await this.#run([program, file], ending === '.py' ? { PYTHONPATH: 'python' } : {})
  }

  #script(code: string): string {
    const state = join(this.home, '.terminal')
    const before = existsSync(state) ? `source ${state} 2> /dev/null\n` : ''
    // What the shell itself forbids to set is left out.
    // In one stream, as in a terminal, so that lines stay in their order.
    return `exec 2>&1\n${before}set -eo pipefail\n${this.here(code)}\ndeclare -p | grep -v '^declare -[a-zA-Z]*r' > ${state}`
  }

  async #serve(code: string): Promise<void> {
    const child = this.#start(['bash', '-c', this.#script(code)], {})
    this.#running.push({ child, isServer: code.includes('npm start') })
    let said = ''
    const ready = Promise.withResolvers<void>()
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        said += chunk.toString()
        if (READY.test(said)) ready.resolve()
      })
    }
    child.once('close', () => ready.reject(new Error(`It ended: ${said}`)))
    await ready.promise
  }

  async #run(words: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
    const child = this.#start(words, env)
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const late = setTimeout(() => signal(child, 'SIGKILL'), LATEST)
    const [code] = (await once(child, 'close')) as [number | null]
    clearTimeout(late)
    if (code !== 0) throw new Error(`exit code ${code}:\n${said}`)
    return said
  }

  #start([file = '', ...words]: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
    // In a group of its own, as a terminal's: npm, the shell and what they start end together.
    const child = spawn(file, words, {
      cwd: this.directory,
      env: { ...this.#env, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const terminal = { shown: '' }
    this.#terminals.push(terminal)
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        const text = chunk.toString().replaceAll('\r\n', '\n')
        terminal.shown += text
        this.#printed += text
        this.#heard?.()
      })
    }
    return child
  }

  /** Waits until the lines of a text were shown; `…` stands for anything within a line. */
  async #sees(text: string): Promise<void> {
    const isShown = (line: string): boolean => this.#terminals.some(({ shown }) => pattern(line).test(shown))
    const missing = (): string | undefined => text.split('\n').find((line) => !isShown(line))
    const late = AbortSignal.timeout(LATEST)
    for (let line = missing(); line !== undefined; line = missing()) {
      if (late.aborted) throw new Error(`"${line}" was not shown:\n${this.#printed}`)
      await new Promise<void>((resolve) => {
        this.#heard = resolve
        late.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  async #end(which: (one: { readonly isServer: boolean }) => boolean): Promise<void> {
    const chosen = this.#running.filter(which)
    for (const one of chosen) this.#running.splice(this.#running.indexOf(one), 1)
    await Promise.all(
      chosen.map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const ended = once(child, 'close')
        signal(child, 'SIGTERM')
        await ended
      }),
    )
  }
}

function pattern(line: string): RegExp {
  return new RegExp(`^${sourceOf(line)}$`, 'm')
}

/** A regular expression for a text in which `…` stands for anything within a line. */
function sourceOf(text: string): string {
  return text
    .split('…')
    .map((part) => RegExp.escape(part))
    .join('.*')
}

function signal({ pid }: ChildProcess, name: NodeJS.Signals): void {
  if (pid !== undefined) process.kill(-pid, name)
}
