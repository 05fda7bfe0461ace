/**
 * Changes of the product's code by what it says: patterns of `test/support/syntax.ts`, and what takes their place. What
 * stood in a hole of a pattern is put back where the change names it.
 */
import { type Module, printSync } from '@swc/core';
import {
  declared,
  found,
  holeInList,
  holeOf,
  type Holes,
  isTree,
  listOf,
  product,
  readingOf,
  treeOf,
} from '../support/syntax.ts';

export interface Change {
  /** See `found`. */
  readonly place: string;
  readonly find: string;
  readonly put: string;
}

export const replaced = (place: string, find: string, put: string): Change => ({ place, find, put });
export const removed = (place: string, find: string): Change => replaced(place, find, '');
export const always = (place: string, condition: string): Change => replaced(place, condition, 'true');
export const never = (place: string, condition: string): Change => replaced(place, condition, 'false');

/** The path of the file that is other, and its text. A pattern that does not stand in its place exactly once is an error. */
export function changed({ place, find, put }: Change, sources = product()): readonly [string, string] {
  const places = found(find, place, sources);
  const [only] = places;
  if (only === undefined || places.length > 1) {
    const where = declared(place, sources).map(({ path }) => path);
    throw new Error(
      `"${find}" stands ${places.length} times in ${place}, not once; files with that name: ${where.join(', ') || 'none'}`,
    );
  }
  // Sound: it is the module, in which one node is another one.
  const module = rewritten(only.module, only.node, listOf(filled(readingOf(find)(put), only.holes))) as Module;
  return [only.path, printSync(module).code];
}

/** The change, with what stood in the holes of its pattern. */
function filled(made: unknown, holes: Holes): unknown {
  const hole = holeOf(made);
  if (hole !== undefined) return fillingOf(hole, holes);
  if (Array.isArray(made))
    return made.flatMap((each) => {
      const list = holeInList(each);
      return list === undefined ? [filled(each, holes)] : fillingOf(list, holes);
    });
  return isTree(made)
    ? Object.fromEntries(Object.entries(made).map(([key, value]) => [key, filled(value, holes)]))
    : made;
}

function fillingOf(hole: string, holes: Holes): unknown {
  const node = holes.get(hole);
  if (node === undefined) throw new Error(`the pattern has no ${hole}`);
  const { type, span } = treeOf(node);
  const isCompound = typeof type === 'string' && type.endsWith('Expression');
  return isCompound ? { type: 'ParenthesisExpression', span, expression: node } : node;
}

function rewritten(value: unknown, node: unknown, others: readonly unknown[]): unknown {
  if (Array.isArray(value)) return value.flatMap((each) => (each === node ? others : [rewritten(each, node, others)]));
  if (value === node)
    return others.length === 1 ? others[0] : { type: 'BlockStatement', span: treeOf(node)['span'], stmts: others };
  if (!isTree(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, rewritten(each, node, others)]));
}
