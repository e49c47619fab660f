/** The command tree, in the form that completion scripts need. */
import type { Command } from 'commander'

export interface FlagNode {
  /** `--json`. */
  readonly name: string
  readonly description: string
  readonly takesValue: boolean
  readonly choices: readonly string[]
}

/** A command with its subcommands, flags and argument choices. */
export interface CommandNode {
  /** `channel send`; empty for the program itself. */
  readonly path: string
  readonly children: readonly { readonly name: string; readonly description: string }[]
  readonly flags: readonly FlagNode[]
  /** Fixed choices for its arguments, if any. */
  readonly choices: readonly string[]
}

/** All commands as a flat list, the program first. */
export function treeOf(command: Command, path = ''): CommandNode[] {
  const flags = command.options.map(({ long, short, description, required, optional, argChoices }) => ({
    name: long ?? short ?? '',
    description,
    takesValue: required || optional,
    choices: argChoices ?? [],
  }))
  const help = { name: '--help', description: 'display help for command', takesValue: false, choices: [] }
  const node: CommandNode = {
    path,
    children: command.commands.map((child) => ({ name: child.name(), description: child.description() })),
    flags: [...flags, help],
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  }
  return [node, ...command.commands.flatMap((child) => treeOf(child, `${path} ${child.name()}`.trim()))]
}
