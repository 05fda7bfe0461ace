/** Shows in a page how changed arguments differ from the proposed ones. */
import type { JsonValue } from '../../contracts/schemas/json.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { foreign, tree } from './faithful.ts';
import { type Html, markup } from './markup.ts';

/** Shows members that differ, the old above the new. */
export function diff(before: Readonly<Record<string, JsonValue>>, after: Readonly<Record<string, JsonValue>>): Html {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = names.filter((name) => textOf(before[name]) !== textOf(after[name]));
  if (changed.length === 0) return markup`<p class="note">Nothing differs.</p>`;
  return markup`<dl class="diff">
      ${changed.map(
        (name) =>
          markup`<div class="member">
            <dt>${foreign(name)}</dt>
            <dd>
              ${before[name] !== undefined && markup`<del>${tree({ [name]: before[name] })}</del>`}${after[name] !== undefined && markup`<ins>${tree({ [name]: after[name] })}</ins>`}
            </dd>
          </div>`,
      )}
    </dl>
    <p class="note">${names.length - changed.length} other arguments are as they were.</p>`;
}

function textOf(value: JsonValue | undefined): string {
  return value === undefined ? '' : canonicalJson(value);
}
