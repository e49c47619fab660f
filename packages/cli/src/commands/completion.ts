/** `static completion`: shell completion, generated from the command tree. */
import { Argument, Command } from 'commander'
import { bashScript } from '../completion/bash.ts'
import { fishScript } from '../completion/fish.ts'
import { treeOf } from '../completion/tree.ts'
import { zshScript } from '../completion/zsh.ts'
import { examples } from '../terminal/examples.ts'
import { print, printJson } from '../terminal/output.ts'

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

export function completionCommand(program: Command): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>', 'shell to complete for').choices(Object.keys(SCRIPTS)))
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      examples(
        'source <(static completion bash)      # in ~/.bashrc',
        'source <(static completion zsh)       # in ~/.zshrc, after compinit',
        'static completion fish | source       # in ~/.config/fish/config.fish',
      ),
    )
    .action((shell: keyof typeof SCRIPTS, { json }: { readonly json?: boolean }) => {
      const script = SCRIPTS[shell](treeOf(program))
      if (json) printJson({ shell, script })
      else print(script)
    })
}
