/** A bounded stretch of a list, so that a query answer stays under Temporal's payload limit. */

/** 1 MiB: half of what one payload may hold (Temporal server `limit.blobSize.error`). */
export const PAGE_BYTES = 1_048_576;

/** As many items as fit, at least one where there is any. Sizes are those of the JSON text in UTF-16 units. */
export function pageOf<T>(items: readonly T[], most = PAGE_BYTES): readonly T[] {
  let size = 0;
  for (const [index, item] of items.entries()) {
    size += JSON.stringify(item).length;
    if (size > most && index > 0) return items.slice(0, index);
  }
  return items;
}
