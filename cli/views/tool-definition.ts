/**
 * A tool's definition, which is its server's word: whole, inert, and set apart from what we say.
 *
 * 1. Every line of it begins with a bar, so that no text of a server can pass for one of ours.
 */
import type { CatalogEntry } from '../../contracts/schemas/catalog.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { named, visible } from '../../domain/escape.ts';
import type { FieldDifference } from '../../domain/definition-diff.ts';
import type { Paint } from '../terminal.ts';

const BAR = '│';

export function definitionText(definition: ToolDefinition, paint: Paint): string {
  const { title, description, inputSchema, outputSchema, annotations } = definition;
  const parts: readonly (readonly [string, JsonValue | undefined])[] = [
    ['title', title],
    ['description', description],
    ['input', inputSchema],
    ['output', outputSchema],
    ['annotations', annotations],
  ];
  return parts
    .flatMap(([label, value]) =>
      value === undefined
        ? []
        : [
            `  ${paint('dim', label)}\n${linesOf(value)
              .map((line) => `  ${BAR} ${line}`)
              .join('\n')}`,
          ],
    )
    .join('\n');
}

export interface ToolDiff {
  readonly entry: CatalogEntry;
  readonly differences: readonly FieldDifference[];
}

export function diffText({ entry, differences }: ToolDiff, paint: Paint): string {
  const { name, acknowledged, definition } = entry;
  const from = acknowledged === undefined ? 'nothing was acknowledged' : `acknowledged ${acknowledged.hash}`;
  const shown = differences.map(({ path, before, after }) =>
    [
      `  ${paint('dim', 'at')} ${BAR} ${paint('bold', visible(path))}`,
      ...(before === undefined ? [] : linesOf(before).map((line) => `  ${paint('red', `- ${BAR} ${line}`)}`)),
      ...(after === undefined ? [] : linesOf(after).map((line) => `  ${paint('green', `+ ${BAR} ${line}`)}`)),
    ].join('\n'),
  );
  const head = `${paint('bold', named(name))}\n  ${paint('dim', from)}\n  ${paint('dim', `now ${definition.hash}`)}`;
  return [head, ...(shown.length > 0 ? shown : ['  nothing has changed'])].join('\n');
}

/** Text keeps its lines; what is more than text is JSON, over some lines. */
function linesOf(value: JsonValue): string[] {
  const text = typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);
  return text.split(/\r?\n/).map((line) => line.split('\t').map(visible).join('    '));
}
