/** Completion for bash. */
import type { CommandNode } from './tree.ts'

/** The script, to be sourced. */
export function bashScript(tree: readonly CommandNode[]): string {
  const steps = tree.flatMap(({ path, children }) => children.map(({ name }) => `"${path} ${name}"`))
  const words = tree.map(({ path, children, flags, choices }) => {
    const all = [...children.map(({ name }) => name), ...choices, ...flags.map(({ name }) => name)]
    return `    "${path}") words="${all.join(' ')}" ;;`
  })
  const values = tree.flatMap(({ path, flags }) =>
    flags
      .filter(({ takesValue }) => takesValue)
      .map(({ name, choices }) => `    "${path}|${name}") words="${choices.join(' ')}" ;;`),
  )
  return `# bash completion for static: source <(static completion bash)
_static() {
  local at="" word words i
  local current="\${COMP_WORDS[COMP_CWORD]}"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    case "$at $word" in
      ${steps.join(' | ')}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at" in
${words.join('\n')}
  esac
  # The value of a flag: one of its choices, or a file name.
  case "$at|\${COMP_WORDS[COMP_CWORD-1]}" in
${values.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _static static`
}
