/** Shows in a page how two values differ: changed arguments, and changed definitions of tools. */
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { canonicalJson } from '../../../domain/text/canonical.ts';
import { foreignName, isList, isObject, MOST_TWICE, shownValue } from './faithful.ts';
import { type Html, markup, type Shown } from './markup.ts';

/** A place where two values differ; absent is a value that is not there. */
export interface Difference {
  /** `payee.iban`, `lines[2].count`. */
  readonly path: string;
  readonly before?: JsonValue | undefined;
  readonly after?: JsonValue | undefined;
}

/** Differences that are shown; a model or a server may make thousands. */
const MOST_SHOWN = 50;

/**
 * Shows how changed arguments differ from the proposed ones, as deep as they do.
 * @param whole says where both stand as a whole: not all of a difference may have room
 */
export function diff(before: JsonObject, after: JsonObject, whole: string): Html {
  const all = differences(before, after);
  const more = all.length - MOST_SHOWN;
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const same = names.filter((name) => isSame(own(before, name), own(after, name))).length;
  let room = MOST_TWICE;
  let large = 0;
  const shown = all.slice(0, MOST_SHOWN).map((each) => {
    const size = sizeOf(each.before) + sizeOf(each.after);
    if (size <= room) {
      room -= size;
      return each;
    }
    large += 1;
    return { path: each.path, large: size };
  });
  return markup`${differencesView(shown)}
    ${(more > 0 || large > 0) && markup`<p class="banner warning">${more > 0 && `${more} more differences are not shown here. `}${large > 0 && `${large} of those above ${large === 1 ? 'is' : 'are'} too large to be shown here. `}${whole}</p>`}
    <p class="note">${same === 1 ? '1 other argument is as it was.' : `${same} other arguments are as they were.`}</p>`;
}

export function definitionChangesView(all: readonly Difference[]): Html {
  const more = all.length - MOST_SHOWN;
  return markup`${differencesView(all.slice(0, MOST_SHOWN))}
    ${more > 0 && markup`<p class="note">${more} more fields differ.</p>`}`;
}

function sizeOf(value: JsonValue | undefined): number {
  return value === undefined ? 0 : JSON.stringify(value).length;
}

/** @param all one that is large stands with its size alone */
export function differencesView(all: readonly (Difference & { readonly large?: number })[]): Html {
  if (all.length === 0) return markup`<p class="note">Nothing differs.</p>`;
  return markup`<dl class="diff">
    ${all.map(
      ({ path, before, after, large }) =>
        markup`<div class="member"><dt>${foreignName(path)}</dt> <dd>
          ${large !== undefined ? markup`<span class="what">differs, with ${large.toLocaleString('en')} characters before and after</span>` : sidesView(before, after)}
        </dd></div>`,
    )}
  </dl>`;
}

function sidesView(before: JsonValue | undefined, after: JsonValue | undefined): Shown {
  return [
    before !== undefined && markup`<del><span class="what">was</span>${shownValue(before)}</del>`,
    after === undefined
      ? markup`<ins><span class="what">is left out</span></ins>`
      : markup`<ins><span class="what">becomes</span>${shownValue(after)}</ins>`,
  ];
}

/** Lists of other lengths differ as a whole: nobody can say which of their items are the same. */
export function differences(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  path = '',
): readonly Difference[] {
  if (isSame(before, after)) return [];
  if (isList(before) && isList(after) && before.length === after.length)
    return before.flatMap((each, index) => differences(each, after[index], `${path}[${index}]`));
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) =>
      differences(own(before, name), own(after, name), path === '' ? named(name) : `${path}.${named(name)}`),
    );
  }
  return [{ path, ...defined({ before, after }) }];
}

/** Quoted where the name itself could be read as a path. */
function named(name: string): string {
  return /[.[\]"]|^$/.test(name) ? JSON.stringify(name) : name;
}

export function own(fields: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function isSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  return one === undefined || other === undefined ? one === other : canonicalJson(one) === canonicalJson(other);
}
