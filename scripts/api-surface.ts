/** What a package's declarations show its users: every export of an entry, with its doc comments and members. */
import { readFileSync } from 'node:fs'
import {
  type Class,
  type ClassElement,
  type Comment,
  type Function,
  type Node,
  parseSync,
  type Statement,
  type TSInterfaceDeclaration,
  type TSSignature,
  type TSType,
  type TSTypeAliasDeclaration,
  type VariableDeclaration,
  Visitor,
} from 'oxc-parser'

/** A member of a class, an interface or an object type. */
export interface Member {
  readonly name: string
  /** As declared, on one line, without the name if it is a property. */
  readonly text: string
  readonly isProperty: boolean
  readonly isOptional: boolean
  readonly doc: string
}

/** One alternative of a union of object types. */
export interface Variant {
  readonly doc: string
  readonly members: readonly Member[]
}

/** An exported declaration. */
export interface Exported {
  readonly name: string
  readonly kind: 'class' | 'interface' | 'type' | 'function' | 'constant'
  readonly doc: string
  /** As declared, without its members, on one line. */
  readonly text: string
  readonly members: readonly Member[]
  /** Not empty for a union of object types. */
  readonly variants: readonly Variant[]
}

/** The exports of an entry, and the names in their signatures that it does not export. */
export interface Surface {
  readonly exports: readonly Exported[]
  readonly hidden: readonly string[]
}

/** The path of a module's declarations; undefined for a module of others. */
export type FindModule = (from: string, specifier: string) => string | undefined

type Declaration = Class | Function | TSInterfaceDeclaration | TSTypeAliasDeclaration | VariableDeclaration

/** A parsed file: its declarations, and the names it takes from others. */
interface Module {
  readonly path: string
  readonly source: string
  readonly comments: readonly Comment[]
  readonly declared: Map<string, { readonly node: Declaration; readonly start: number }>
  readonly taken: Map<string, { readonly name: string; readonly from: string }>
  readonly exported: string[]
}

interface Found {
  readonly module: Module
  readonly name: string
}

/** Reads the declarations that an entry exports. */
export function readSurface(entry: string, findModule: FindModule): Surface {
  const modules = new Map<string, Module>()
  const load = (path: string): Module => {
    const module = modules.get(path) ?? parseModule(path)
    modules.set(path, module)
    return module
  }
  /** Where a name is declared; undefined if it is global or belongs to others. */
  const find = (module: Module, name: string): Found | undefined => {
    if (module.declared.has(name)) return { module, name }
    const taken = module.taken.get(name)
    const path = taken && findModule(module.path, taken.from)
    return taken && path !== undefined ? find(load(path), taken.name) : undefined
  }
  const main = load(entry)
  const found = main.exported.map((name) => expectFound(find(main, name), name))
  const shown = new Set(found.map(({ module, name }) => `${module.path} ${name}`))
  const hidden = new Set<string>()
  for (const { module, name } of found) {
    for (const reference of referencesOf(module.declared.get(name)!.node)) {
      const target = find(module, reference)
      if (target && !shown.has(`${target.module.path} ${target.name}`)) hidden.add(target.name)
    }
  }
  return { exports: found.map(({ module, name }) => describe(module, name)), hidden: [...hidden].sort() }
}

function expectFound(found: Found | undefined, name: string): Found {
  if (!found) throw new Error(`The declaration of ${name} was not found.`)
  return found
}

function parseModule(path: string): Module {
  const source = readFileSync(path, 'utf8')
  const { program, comments, errors } = parseSync(path, source, { lang: 'dts' })
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]!.message}`)
  const module: Module = { path, source, comments, declared: new Map(), taken: new Map(), exported: [] }
  for (const statement of program.body) {
    if (statement.type === 'ImportDeclaration') {
      for (const one of statement.specifiers) {
        if (one.type !== 'ImportSpecifier') continue
        module.taken.set(one.local.name, { name: textOf(source, one.imported), from: statement.source.value })
      }
    } else if (statement.type === 'ExportNamedDeclaration') {
      if (statement.declaration) module.exported.push(...declare(module, statement.declaration, statement.start))
      for (const { local, exported } of statement.specifiers) {
        const name = textOf(source, exported)
        module.exported.push(name)
        if (statement.source) module.taken.set(name, { name: textOf(source, local), from: statement.source.value })
      }
    } else declare(module, statement, statement.start)
  }
  return module
}

/** Notes a declaration and returns its names. */
function declare(module: Module, node: Statement, start: number): string[] {
  const names = namesOf(node)
  for (const name of names) module.declared.set(name, { node: node as Declaration, start })
  return names
}

function namesOf(node: Statement): string[] {
  if (node.type === 'VariableDeclaration')
    return node.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []))
  const isDeclaration =
    node.type === 'ClassDeclaration' ||
    node.type === 'TSInterfaceDeclaration' ||
    node.type === 'TSTypeAliasDeclaration' ||
    node.type === 'TSDeclareFunction'
  return isDeclaration && node.id ? [node.id.name] : []
}

/** The names that a declaration uses, without its own type parameters. */
function referencesOf(node: Declaration): Set<string> {
  const used = new Set<string>()
  const own = new Set<string>()
  const use = (name: Node | null): void => {
    if (name?.type === 'Identifier') used.add(name.name)
  }
  const visitor = new Visitor({
    TSTypeReference: ({ typeName }) => use(typeName),
    TSInterfaceHeritage: ({ expression }) => use(expression),
    TSClassImplements: ({ expression }) => use(expression),
    TSTypeQuery: ({ exprName }) => use(exprName),
    ClassDeclaration: ({ superClass }) => use(superClass),
    TSTypeParameter: ({ name }) => void own.add(name.name),
  })
  visitor.visit({ type: 'Program', body: [node], sourceType: 'module', hashbang: null, start: 0, end: node.end })
  return used.difference(own)
}

function describe(module: Module, name: string): Exported {
  const { node, start } = module.declared.get(name)!
  const doc = docBefore(module, start)
  const headOf = (end: number): string => oneLine(module.source.slice(node.start, end))
  const plain = { name, doc, members: [], variants: [] }
  switch (node.type) {
    case 'ClassDeclaration':
      return { ...plain, kind: 'class', text: headOf(node.body.start), members: membersOfClass(module, node) }
    case 'TSInterfaceDeclaration':
      return { ...plain, kind: 'interface', text: headOf(node.body.start), members: membersOf(module, node.body.body) }
    case 'TSTypeAliasDeclaration':
      return {
        ...plain,
        kind: 'type',
        text: headOf(node.end),
        variants: variantsOf(module, node.typeAnnotation),
      }
    default: {
      const kind = node.type === 'TSDeclareFunction' ? 'function' : 'constant'
      return { ...plain, kind, text: headOf(node.end) }
    }
  }
}

function membersOfClass(module: Module, { body }: Class): Member[] {
  return body.body.flatMap((member) => (isPublic(member) ? [memberOf(module, member)] : []))
}

function isPublic(member: ClassElement): boolean {
  if (member.type !== 'MethodDefinition' && member.type !== 'PropertyDefinition') return false
  return member.key.type !== 'PrivateIdentifier' && member.accessibility !== 'private'
}

function membersOf(module: Module, signatures: readonly TSSignature[]): Member[] {
  return signatures.map((signature) => memberOf(module, signature))
}

function variantsOf(module: Module, type: TSType): Variant[] {
  const types = type.type === 'TSUnionType' ? type.types : [type]
  return types.flatMap((one) =>
    one.type === 'TSTypeLiteral'
      ? [{ doc: docBefore(module, one.start), members: membersOf(module, one.members) }]
      : [],
  )
}

function memberOf(module: Module, member: ClassElement | TSSignature): Member {
  const doc = docBefore(module, member.start)
  const { source } = module
  if (member.type === 'TSPropertySignature' || member.type === 'PropertyDefinition') {
    const name = textOf(source, member.key)
    const text = member.typeAnnotation ? oneLine(textOf(source, member.typeAnnotation).replace(/^:\s*/, '')) : ''
    return { name, text, isProperty: true, isOptional: member.optional === true, doc }
  }
  if (member.type === 'MethodDefinition' && member.kind === 'get') {
    const text = member.value.returnType ? oneLine(textOf(source, member.value.returnType).replace(/^:\s*/, '')) : ''
    return { name: textOf(source, member.key), text, isProperty: true, isOptional: false, doc }
  }
  const key = 'key' in member ? textOf(source, member.key) : ''
  const name = 'computed' in member && member.computed ? `[${key}]` : key
  return { name, text: oneLine(textOf(source, member)), isProperty: false, isOptional: false, doc }
}

/** The doc comment that ends just before a position, without its stars. */
function docBefore({ source, comments }: Module, start: number): string {
  const comment = comments.findLast(({ end }) => end <= start)
  if (!comment?.value.startsWith('*') || /[^\s|]/.test(source.slice(comment.end, start))) return ''
  return comment.value
    .replace(/^\*/, '')
    .replaceAll(/^[ \t]*\* ?/gm, '')
    .trim()
}

function textOf(source: string, { start, end }: { readonly start: number; readonly end: number }): string {
  return source.slice(start, end)
}

/** Code without its comments and line breaks. */
function oneLine(code: string): string {
  return code
    .replaceAll(/\/\*[\s\S]*?\*\//g, ' ')
    .replaceAll(/\s+/g, ' ')
    .replace(/[; ]+$/, '')
    .replaceAll('; }', ' }')
    .trim()
}
