/** `npm run proof -- NAME`: the long forms of what `npm test` runs in short. Without a name it lists them. */
import { ensureCapture } from './debian.ts'
import { fail, run } from './step.ts'

interface Proof {
  readonly about: string
  /** Resolves to the exit code. */
  readonly prove: (words: readonly string[]) => Promise<number>
}

const node = (file: string, words: readonly string[], env: Record<string, string> = {}): Promise<number> =>
  run(process.execPath, [file, ...words], env)

const PROOFS: Readonly<Record<string, Proof>> = {
  crash: {
    about: 'kills an agent at every point of the crash table',
    prove: (words) => node('packages/sdk/test/crash/all.ts', words),
  },
  races: {
    about: 'fifty rounds in which eight agents commit at the same time',
    prove: (words) =>
      node('scripts/test.ts', ['packages/sdk/test/scenario/races.test.ts', ...words], { STATIC_ROUNDS: '50' }),
  },
  traffic: {
    about: 'records agents of each traffic profile and writes what a classifier finds into the README',
    prove: async (words) => {
      await ensureCapture('The proof of the traffic')
      return node('lab/traffic/proof.ts', words)
    },
  },
  repeat: {
    about: 'runs every test file that starts processes, races or kills many times: [FILES…] [--times 20] [--load]',
    prove: (words) => node('scripts/repeat.ts', words),
  },
}

const [name, ...words] = process.argv.slice(2)
const list = Object.entries(PROOFS).map(([known, { about }]) => `  ${known.padEnd(8)} ${about}\n`)
if (name === undefined) process.stdout.write(`npm run proof -- NAME\n\n${list.join('')}`)
else {
  const proof = Object.hasOwn(PROOFS, name) ? PROOFS[name] : undefined
  if (!proof) fail(`Unknown proof: ${name}. Known: ${Object.keys(PROOFS).join(', ')}.`)
  process.exitCode = await proof.prove(words)
}
