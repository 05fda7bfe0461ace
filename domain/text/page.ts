/** A page is a bounded part of a list, so that a query answer stays under Temporal's payload limit. */
import { byteLength } from './canonical.ts';

/** 1 MiB: half of what one payload may hold (Temporal server `limit.blobSize.error`). */
export const PAGE_BYTES = 1_048_576;

/** Returns as many items as fit, at least one if there is any. Sizes are those of the JSON text in UTF-8. */
export function pageOf<T>(items: readonly T[], most = PAGE_BYTES): readonly T[] {
  let size = 0;
  for (const [index, item] of items.entries()) {
    const comma = index === 0 ? 0 : 1;
    size += comma + byteLength(JSON.stringify(item));
    if (size > most && index > 0) return items.slice(0, index);
  }
  return items;
}
