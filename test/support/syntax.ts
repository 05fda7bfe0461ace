/**
 * Finds code of the product by its syntax. Layout, comments, parentheses, types and file names do not matter;
 * names matter only if a pattern gives them.
 *
 * A pattern is a statement (ends with `;`), a property (begins with `name:` or `...`), or an expression. `$_` matches
 * anything. `$name` matches anything, but the same at each place. `$$` and `$$name` match any number of arguments,
 * properties or statements.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Module, parseSync } from '@swc/core';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The folders of which a workflow consists. */
export const PARTS = [
  ...readFileSync(join(ROOT, 'tsconfig.sandbox.json'), 'utf8').matchAll(/"([\w/]+)\/\*\*\/\*\.ts"/g),
].map(([, part = '']) => part);

/** Texts by path. */
export type Sources = ReadonlyMap<string, string>;
/** A node of the syntax, or a part of one. */
export type Tree = Readonly<Record<string, unknown>>;
/** Code by the hole of the pattern that it fills. */
export type Holes = ReadonlyMap<string, unknown>;

export interface Found {
  readonly path: string;
  readonly module: Module;
  readonly node: unknown;
  readonly holes: Holes;
}

let read: Sources | undefined;

/** Sources by path from the root. */
export function product(): Sources {
  read ??= new Map(
    PARTS.flatMap((part) =>
      readdirSync(join(ROOT, part), { recursive: true, encoding: 'utf8' }).map((name) => join(part, name)),
    )
      .filter((path) => path.endsWith('.ts'))
      .map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]),
  );
  return read;
}

/**
 * Returns all matches, anywhere or in one place.
 * @param place a function, a constant, or `Class.method`; private methods without `#`
 */
export function found(pattern: string, place?: string, sources = product()): readonly Found[] {
  const [wanted] = readingOf(pattern)(pattern);
  const words = pattern.match(/(?<![\w$])[a-z]\w*/gi) ?? [];
  const holding = [...sources].filter(([, text]) => words.every((word) => text.includes(word)));
  return declared(place, new Map(holding)).flatMap(({ path, module, node }) =>
    within(node).flatMap((each) => {
      const holes = fitted(wanted, each, new Map());
      return holes === undefined ? [] : [{ path, module, node: each, holes }];
    }),
  );
}

const modules = new Map<string, Module>();

/** Returns the declarations of a name; without a name, each module. */
export function declared(place: string | undefined, sources = product()): readonly Omit<Found, 'holes'>[] {
  const name = place?.slice(place.indexOf('.') + 1) ?? '';
  return [...sources].flatMap(([path, text]) => {
    if (!text.includes(name)) return [];
    const module = modules.get(text) ?? parsed(text);
    modules.set(text, module);
    const nodes = place === undefined ? [module] : module.body.flatMap((item) => declaredIn(treeOf(item), place));
    return nodes.map((node) => ({ path, module, node }));
  });
}

function declaredIn(item: Tree, place: string): readonly unknown[] {
  const { type, identifier, id, body } = item;
  if (type === 'ExportDeclaration') return declaredIn(treeOf(item['declaration']), place);
  if (type === 'VariableDeclaration')
    return listOf(item['declarations']).filter((each) => nameOf(treeOf(each)['id']) === place);
  if (type === 'ClassDeclaration')
    return listOf(body).filter((member) => `${nameOf(identifier)}.${nameOf(treeOf(member)['key'])}` === place);
  return nameOf(identifier ?? id) === place ? [item] : [];
}

export function nameOf(node: unknown): string {
  const { value } = treeOf(node);
  return typeof value === 'string' ? value : '';
}

export function parsed(code: string): Module {
  return parseSync(code, { syntax: 'typescript', target: 'es2022' });
}

export function readingOf(pattern: string): (code: string) => readonly unknown[] {
  if (pattern.endsWith(';')) return statements;
  if (/^(\.\.\.|\w+:)/.test(pattern)) return (code) => listOf(treeOf(bare(expressionOf(`{${code}}`)))['properties']);
  return (code) => [expressionOf(code)];
}

function expressionOf(code: string): unknown {
  return treeOf(statements(`(${code});`)[0])['expression'];
}

/** Wraps the code so that `await` and `this.#name` parse. */
function statements(code: string): readonly unknown[] {
  const [wrapper] = parsed(`class _ extends _ { async _() { ${code} } }`).body;
  const [method] = listOf(treeOf(wrapper)['body']);
  return listOf(treeOf(treeOf(treeOf(method)['function'])['body'])['stmts']);
}

/** Syntax around an expression that does not change it. */
const AROUND = new Set(['ParenthesisExpression', 'TsAsExpression', 'TsConstAssertion', 'TsSatisfiesExpression']);

function bare(node: unknown): unknown {
  const { type, expression } = treeOf(node);
  return typeof type === 'string' && AROUND.has(type) ? bare(expression) : node;
}

const inside = new WeakMap<object, readonly unknown[]>();

/** Returns the nodes of a part of the syntax, itself first. Trees are not changed, so each is gone through once. */
export function within(value: unknown): readonly unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  const known = inside.get(value);
  if (known !== undefined) return known;
  const nodes: unknown[] = [];
  collect(value, nodes);
  inside.set(value, nodes);
  return nodes;
}

function collect(value: object, nodes: unknown[]): void {
  if (!Array.isArray(value) && typeof treeOf(value)['type'] === 'string' && bare(value) === value) nodes.push(value);
  const parts: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const each of parts) if (typeof each === 'object' && each !== null) collect(each, nodes);
}

/** `start` and `end` belong to spans; tokens have spans, too. */
const IMMATERIAL = new Set('span ctxt raw start end typeAnnotation typeArguments typeParameters returnType'.split(' '));

/** Returns the filled holes if the code fits the pattern; otherwise undefined. */
function fitted(pattern: unknown, code: unknown, holes: Holes): Holes | undefined {
  const hole = holeOf(pattern);
  if (hole !== undefined) return filling(hole, code, holes);
  if (Array.isArray(pattern)) return Array.isArray(code) ? listFitted(pattern, code, holes) : undefined;
  const [wanted, given] = [bare(pattern) ?? null, bare(code) ?? null];
  if (!isTree(wanted) || !isTree(given)) return wanted === given ? holes : undefined;
  // Most nodes are of another kind: the rest need not be compared.
  if (wanted['type'] !== given['type']) return undefined;
  return Object.keys({ ...wanted, ...given })
    .filter((key) => !IMMATERIAL.has(key))
    .reduce<Holes | undefined>((all, key) => all && fitted(wanted[key], given[key], all), holes);
}

function listFitted(patterns: readonly unknown[], code: readonly unknown[], holes: Holes): Holes | undefined {
  const [first, ...rest] = patterns;
  if (patterns.length === 0) return code.length === 0 ? holes : undefined;
  const hole = holeInList(first);
  const lengths = hole === undefined ? [1] : [...code.keys(), code.length];
  for (const length of lengths) {
    const start = code.slice(0, length);
    const begun = hole === undefined ? fitted(first, start[0], holes) : filling(hole, start, holes);
    const whole = begun && listFitted(rest, code.slice(length), begun);
    if (whole !== undefined && start.length === length) return whole;
  }
  return undefined;
}

function filling(hole: string, code: unknown, holes: Holes): Holes | undefined {
  if (hole === '$_' || hole === '$$') return holes;
  return holes.has(hole) ? fitted(holes.get(hole), code, holes) : new Map([...holes, [hole, code]]);
}

export function holeOf(node: unknown): string | undefined {
  return treeOf(node)['type'] === 'Identifier' && nameOf(node).startsWith('$') ? nameOf(node) : undefined;
}

/** Returns the name of a hole for arguments, properties or statements. */
export function holeInList(item: unknown): string | undefined {
  const hole = holeOf(item) ?? holeOf(treeOf(item)['expression']);
  return hole?.startsWith('$$') === true ? hole : undefined;
}

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function treeOf(value: unknown): Tree {
  return isTree(value) ? value : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
