/** The commands as a shell needs them to complete a line. */
import type { Command } from 'commander'

/** A flag. */
export interface FlagNode {
  /** `--json`. */
  readonly name: string
  readonly description: string
  readonly takesValue: boolean
  readonly choices: readonly string[]
}

/** A command with what can stand after it. */
export interface CommandNode {
  /** `channel send`; empty for the program itself. */
  readonly path: string
  readonly children: readonly { readonly name: string; readonly description: string }[]
  readonly flags: readonly FlagNode[]
  /** What its arguments can be, where that is known. */
  readonly choices: readonly string[]
}

/** All commands, the program first. */
export function treeOf(command: Command, path = ''): CommandNode[] {
  const flags = command.options.map(({ long, short, description, required, optional, argChoices }) => ({
    name: long ?? short ?? '',
    description,
    takesValue: required || optional,
    choices: argChoices ?? [],
  }))
  const help = { name: '--help', description: 'show how to use it', takesValue: false, choices: [] }
  const node: CommandNode = {
    path,
    children: command.commands.map((child) => ({ name: child.name(), description: child.description() })),
    flags: [...flags, help],
    choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  }
  return [node, ...command.commands.flatMap((child) => treeOf(child, `${path} ${child.name()}`.trim()))]
}
