/** Completion for zsh. */
import type { CommandNode } from './tree.ts'

/** The script, to be sourced or saved as `_static` in a directory of `fpath`. */
export function zshScript(tree: readonly CommandNode[]): string {
  const steps = tree.flatMap(({ path, children }) => children.map(({ name }) => `"${path} ${name}"`))
  const cases = tree.map(({ path, children, flags, choices }) => {
    const commands = [...children, ...choices.map((name) => ({ name, description: '' }))]
    return `    "${path}") commands=(${commands.map(described).join(' ')}) flags=(${flags.map(described).join(' ')}) ;;`
  })
  const values = tree.flatMap(({ path, flags }) =>
    flags
      .filter(({ takesValue }) => takesValue)
      .map(({ name, choices }) =>
        choices.length > 0
          ? `    "${path}|${name}") compadd -- ${choices.join(' ')}; return ;;`
          : `    "${path}|${name}") _files; return ;;`,
      ),
  )
  return `#compdef static
# zsh completion for static: source <(static completion zsh)
_static() {
  local at="" word i
  local -a commands flags
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
    case "$at $word" in
      ${steps.join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at|\${words[CURRENT-1]}" in
${values.join('\n')}
  esac
  case "$at" in
${cases.join('\n')}
  esac
  if [[ "\${words[CURRENT]}" == -* ]]; then
    _describe -t flags flag flags
  elif (( \${#commands} > 0 )); then
    _describe -t commands command commands
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" == _static ]]; then _static "$@"; else compdef _static static; fi`
}

function described({ name, description }: { readonly name: string; readonly description: string }): string {
  const text = description === '' ? name : `${name}:${description.replaceAll(':', String.raw`\:`)}`
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
