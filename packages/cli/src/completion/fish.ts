/** Completion for fish. */
import type { CommandNode, FlagNode } from './tree.ts'

/** The script, to be sourced or saved as `~/.config/fish/completions/static.fish`. */
export function fishScript(tree: readonly CommandNode[]): string {
  const steps = tree.flatMap(({ path, children }) => children.map(({ name }) => quoted(`${path} ${name}`)))
  const lines = tree.flatMap(({ path, children, flags, choices }) => {
    const here = `complete -c static -n ${quoted(`__static_at ${quoted(path)}`)}`
    return [
      ...children.map(({ name, description }) => `${here} -f -a ${name} -d ${quoted(description)}`),
      ...(choices.length > 0 ? [`${here} -f -a ${quoted(choices.join(' '))}`] : []),
      ...flags.map((flag) => `${here} ${flagWords(flag)} -d ${quoted(flag.description)}`),
    ]
  })
  return `# fish completion for static: static completion fish | source
function __static_at
    set -l at
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case ${steps.join(' ')}
                set at (string trim -- "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end
${lines.join('\n')}`
}

function flagWords({ name, takesValue, choices }: FlagNode): string {
  const long = `-l ${name.replace(/^--/, '')}`
  if (!takesValue) return long
  return choices.length > 0 ? `${long} -x -a ${quoted(choices.join(' '))}` : `${long} -r`
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", String.raw`\'`)}'`
}
