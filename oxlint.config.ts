/** The rules of the linter. Who may import whom is in `scripts/walls.ts`. */
import type { OxlintConfig } from 'oxlint'
import { walls } from './scripts/walls.ts'

const config: OxlintConfig = {
  plugins: ['typescript', 'unicorn', 'oxc', 'import', 'node'],
  categories: { correctness: 'error', suspicious: 'error', perf: 'off' },
  options: { typeAware: true },
  rules: {
    'import/no-cycle': ['error', { ignoreTypes: false }],
    'import/no-default-export': 'error',
    'import/no-named-as-default': 'off',
    'import/no-named-as-default-member': 'off',
    'typescript/no-explicit-any': 'error',
    'typescript/no-floating-promises': [
      'error',
      {
        allowForKnownSafeCalls: [
          {
            from: 'package',
            name: ['test', 'describe', 'it', 'before', 'after', 'beforeEach', 'afterEach'],
            package: 'node:test',
          },
        ],
      },
    ],
    'typescript/no-misused-promises': 'error',
    'typescript/await-thenable': 'error',
    'typescript/consistent-type-imports': 'error',
    'typescript/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
    'typescript/no-non-null-assertion': 'error',
    'typescript/no-unsafe-type-assertion': 'off',
    'typescript/no-unnecessary-type-assertion': 'error',
    'eslint/no-console': 'error',
    'eslint/eqeqeq': 'error',
    'eslint/no-shadow': 'off',
    'oxc/no-async-endpoint-handlers': 'off',
    'typescript/consistent-return': 'off',
    'eslint/no-underscore-dangle': 'off',
    'unicorn/prefer-node-protocol': 'error',
    'unicorn/consistent-function-scoping': 'off',
    'unicorn/no-array-sort': 'off',
    'node/no-process-env': 'error',
  },
  overrides: [
    ...walls,
    {
      files: ['packages/relay/src/core/**'],
      rules: {
        'eslint/no-restricted-properties': [
          'error',
          { object: 'Date', property: 'now', message: 'Every time is an argument.' },
          { object: 'Math', property: 'random', message: 'Randomness is an argument.' },
        ],
      },
    },
    {
      files: ['packages/*/src/**'],
      rules: {
        'eslint/max-lines': ['error', { max: 700 }],
        'eslint/max-lines-per-function': ['error', { max: 80 }],
      },
    },
    { files: ['packages/protocol/src/errors/table.ts'], rules: { 'eslint/max-lines': 'off' } },
    {
      // Parts of a channel name the type of the whole.
      files: ['packages/sdk/src/{agent,channel,files,joining,admitting}/**'],
      rules: { 'import/no-cycle': ['error', { ignoreTypes: true }] },
    },
    { files: ['packages/cli/src/**'], rules: { 'eslint/no-console': 'off', 'node/no-process-env': 'off' } },
    {
      files: [
        'packages/*/test/**',
        'packages/testkit/**',
        'tests/**',
        'lab/**',
        'bench/**',
        'scripts/**',
        'examples/**',
        'deploy/**',
      ],
      rules: {
        'node/no-process-env': 'off',
        'eslint/no-console': 'off',
        'typescript/no-explicit-any': 'off',
        'typescript/require-array-sort-compare': 'off',
        'eslint/no-unmodified-loop-condition': 'off',
        'typescript/no-non-null-assertion': 'off',
      },
    },
    {
      files: ['knip.src.ts', 'oxlint.config.ts', 'scripts/{bundle,test-bundles}.config.mjs'],
      rules: { 'import/no-default-export': 'off' },
    },
  ],
}

export default config
