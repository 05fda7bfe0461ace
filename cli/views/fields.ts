/** Lines of `label  value`, aligned. */
import type { Paint } from '../terminal.ts';

/** A label that is longer stands out and moves no other. */
const WIDEST_LABEL = 24;
const WIDEST_CELL = 160;

/** A field without a value is left out. */
export type Field = readonly [label: string, value: string | undefined];

export function fields(paint: Paint, rows: readonly Field[], indent = 2): string {
  const shown = rows.filter((row): row is readonly [string, string] => row[1] !== undefined && row[1] !== '');
  const width = Math.min(WIDEST_LABEL, Math.max(...shown.map(([label]) => label.length)));
  return shown
    .map(([label, value]) => `${' '.repeat(indent)}${paint('dim', label.padEnd(width))}  ${value}`)
    .join('\n');
}

/** Columns as wide as their widest cell, within reason; the first row is the head. */
export function table(paint: Paint, rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.min(WIDEST_CELL, Math.max(...rows.map((row) => row[column]?.length ?? 0))),
  );
  return rows
    .map((row, index) => {
      const line = row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd();
      return index === 0 ? paint('dim', line) : line;
    })
    .join('\n');
}
