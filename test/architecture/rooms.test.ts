// The rooms of the product: small enough to read, in one direction, and no function that one must scroll through
// without being told why.
import { posix } from 'node:path';
import { expect, test } from '@jest/globals';
import { parseSync } from '@swc/core';
import { PRODUCT } from '../support/source-hash.ts';
import { sourceFiles } from './source-tree.ts';

const MOST_FILES = 500;
const MOST_FILES_OF_A_ROOM = 25;
const MOST_LINES_OF_A_FUNCTION = 60;
const REASON = /\bOne function, because /;

/** Rooms that import each other. Each pair is told in docs/adr/0054. */
const BOTH_WAYS: readonly string[] = [
  'activities/gate ↔ activities/gate/legacy-2025',
  'domain/legacy-2025 ↔ domain/request',
  'workflows/legacy-2025 ↔ workflows/run',
];

const files = sourceFiles();
const product = files.filter(({ folder }) => PRODUCT.includes(folder));
const support = files.filter(({ path }) => path.startsWith('test/support/'));

/** Puts each file into the group whose name `nameOf` gives, with what it imports from other groups. */
function arrows(of: typeof files, nameOf: (path: string) => string): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  for (const { path, imports } of of)
    for (const { target } of imports.filter(({ isRelative }) => isRelative)) {
      const [from, to] = [nameOf(path), nameOf(target)];
      if (from !== to) found.set(from, (found.get(from) ?? new Set()).add(to));
    }
  return found;
}

/** @returns the pairs of which each reaches the other by one import */
function pairsBothWays(found: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] {
  return [...found].flatMap(([from, targets]) =>
    [...targets].filter((to) => from < to && found.get(to)?.has(from)).map((to) => `${from} ↔ ${to}`),
  );
}

/** @returns what is left when everything that imports nothing left, or that nothing left imports, is taken away, again and again */
function inCircles(found: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] {
  const left = new Map([...found].map(([from, targets]) => [from, new Set(targets)]));
  for (let free = true; free;) {
    free = false;
    for (const [from, targets] of left) {
      for (const to of targets) if (!left.has(to)) targets.delete(to);
      const isImported = [...left.values()].some((others) => others.has(from));
      if (targets.size === 0 || !isImported) free = left.delete(from);
    }
  }
  return [...left.keys()];
}

test('arrows between two rooms are seen, and a circle of three files', () => {
  const both = new Map([
    ['a', new Set(['b', 'c'])],
    ['b', new Set(['a'])],
  ]);
  expect(pairsBothWays(both)).toEqual(['a ↔ b']);
  const circle = new Map([
    ['a', new Set(['b'])],
    ['b', new Set(['c'])],
    ['c', new Set(['a', 'd'])],
    ['e', new Set(['d'])],
  ]);
  expect(inCircles(circle)).toEqual(['a', 'b', 'c']);
});

test('the product has few enough files, and each room too, also of test support', () => {
  expect(product.length).toBeGreaterThan(200);
  expect(product.length).toBeLessThanOrEqual(MOST_FILES);
  expect(support.length).toBeGreaterThan(50);
  const rooms = [...product, ...support].map(({ path }) => posix.dirname(path));
  const crowded = [...new Set(rooms)].filter((room) => rooms.filter((it) => it === room).length > MOST_FILES_OF_A_ROOM);
  expect(crowded).toEqual([]);
});

test('rooms import each other in one direction, apart from those named above', () => {
  expect(pairsBothWays(arrows(product, posix.dirname)).toSorted()).toEqual(BOTH_WAYS.toSorted());
  expect(pairsBothWays(arrows(support, posix.dirname))).toEqual([]);
});

test('files import each other in no circle, types included', () => {
  expect(inCircles(arrows(product, (path) => path))).toEqual([]);
});

test('a field that may be missing is said by `defined`', () => {
  const trivial = /\.\.\.\((\w[\w.]*) [!=]== undefined \? (?:\{\} : )?\{ (?:\w+: )?\1 \}/g;
  expect('...(a === undefined ? {} : { a }), ...(b.c !== undefined ? { c: b.c } : {})'.match(trivial)).toHaveLength(2);
  expect(product.filter(({ text }) => text.search(trivial) >= 0).map(({ path }) => path)).toEqual([]);
});

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Adds where functions with a body begin and end, by offsets of bytes in the text. */
function bodiesIn(node: unknown, spans: Span[] = []): readonly Span[] {
  if (typeof node !== 'object' || node === null) return spans;
  const { type, body, function: method, span } = node as Readonly<Record<string, unknown>>;
  const isFunction =
    (type === 'FunctionDeclaration' || type === 'FunctionExpression' || type === 'ArrowFunctionExpression') && body;
  // Sound: swc gives every node of these types a span.
  if (isFunction || method !== undefined) spans.push(span as Span);
  for (const each of Object.values(node)) bodiesIn(each, spans);
  return spans;
}

const NEWLINE = '\n'.charCodeAt(0);

/** @returns `path:line` of each function that is longer than may be, and gives no reason in the comment before it */
function endlessIn(path: string, text: string): readonly string[] {
  const lines = text.split('\n');
  // Half of all files are shorter than one function may be.
  if (lines.length <= MOST_LINES_OF_A_FUNCTION) return [];
  const bytes = Buffer.from(text);
  const { body, span } = parseSync(text, { syntax: 'typescript', target: 'es2023' });
  // Offsets count on from what was parsed before; the module ends with its last statement.
  const base = span.end - Buffer.byteLength(text.trimEnd());
  const newlinesIn = (start: number, end: number): number =>
    bytes.subarray(Math.max(0, start), end).reduce((count, byte) => count + Number(byte === NEWLINE), 0);
  return bodiesIn(body)
    .filter(({ start, end }) => newlinesIn(start - base, end - base) >= MOST_LINES_OF_A_FUNCTION)
    .map(({ start }) => newlinesIn(0, start - base) + 1)
    .filter((first) => !REASON.test(commentBefore(lines, first)))
    .map((first) => `${path}:${first}`);
}

function commentBefore(lines: readonly string[], line: number): string {
  const above = lines.slice(0, line - 1);
  const start = above.findLastIndex((text) => !/^\s*(?:\/\/|\/\*\*|\*)/.test(text));
  return above.slice(start + 1).join('\n');
}

test('a function of more lines than fit on a screen says why it is one', () => {
  const long = (comment: string): string => `${comment}function f() {\n${'  g();\n'.repeat(70)}}\n`;
  expect(endlessIn('a.ts', `// ä\n${long('')}`)).toEqual(['a.ts:2']);
  expect(endlessIn('a.ts', long('/** One function, because all of it is one list. */\n'))).toEqual([]);
  expect(product.flatMap(({ path, text }) => endlessIn(path, text))).toEqual([]);
});
