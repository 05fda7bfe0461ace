/** Shows in a page how two values differ: changed arguments, and changed definitions of tools. */
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { canonicalJson } from '../../../domain/text/canonical.ts';
import { foreign, isList, isObject, shownValue } from './faithful.ts';
import { type Html, markup } from './markup.ts';

/** A place where two values differ; absent is a value that is not there. */
export interface Difference {
  /** `payee.iban`, `lines[2].count`. */
  readonly path: string;
  readonly before?: JsonValue | undefined;
  readonly after?: JsonValue | undefined;
}

/** Shows how changed arguments differ from the proposed ones, as deep as they do. */
export function diff(before: JsonObject, after: JsonObject): Html {
  const all = differences(before, after);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const same = names.filter((name) => isSame(own(before, name), own(after, name))).length;
  return markup`${differencesView(all)}
    <p class="note">${same === 1 ? '1 other argument is as it was.' : `${same} other arguments are as they were.`}</p>`;
}

/** Fields of a definition whose change is shown; a hostile server may change thousands. */
const MOST_SHOWN = 50;

/** Shows how two definitions of a tool differ, as far as people read. */
export function definitionChangesView(all: readonly Difference[]): Html {
  const more = all.length - MOST_SHOWN;
  return markup`${differencesView(all.slice(0, MOST_SHOWN))}
    ${more > 0 && markup`<p class="note">${more} more fields differ.</p>`}`;
}

export function differencesView(all: readonly Difference[]): Html {
  if (all.length === 0) return markup`<p class="note">Nothing differs.</p>`;
  return markup`<dl class="diff">
    ${all.map(
      ({ path, before, after }) =>
        markup`<div class="member">
          <dt>${foreign(path)}</dt>
          <dd>
            ${before !== undefined && markup`<del><span class="what">was</span>${shownValue(before)}</del>`}${after !== undefined && markup`<ins><span class="what">becomes</span>${shownValue(after)}</ins>`}${after === undefined && markup`<ins><span class="what">is left out</span></ins>`}
          </dd>
        </div>`,
    )}
  </dl>`;
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

function own(fields: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function isSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  return one === undefined || other === undefined ? one === other : canonicalJson(one) === canonicalJson(other);
}
