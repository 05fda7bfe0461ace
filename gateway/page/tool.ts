/** The definition of a requested tool in its page: the server's words, the whole of it, and what changed in it. */
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { definitionDiff } from '../../domain/catalog/discovery.ts';
import { definitionChangesView } from './kit/diff.ts';
import { foldedJson, foreignBlock } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import type { EarlierTool, KnownTool } from '../catalog/definitions.ts';

type Asked = Pick<ApprovalRequest, 'description' | 'annotations' | 'reopenedBecause'>;

export function toolView(
  { description, annotations }: Asked,
  { definition, earlier, isAcknowledged }: KnownTool,
): Html {
  const said = definition?.description ?? description;
  const title = definition?.title;
  return markup`<section aria-labelledby="says">
    <h2 id="says">What the server says of its tool</h2>
    <p class="note">Words of the server, which may be untrue.</p>
    ${title !== undefined && foreignBlock(title)}
    ${said === undefined ? markup`<p class="empty-value">It says nothing.</p>` : foreignBlock(said)}
    ${earlier !== undefined && changedView(earlier, definition)}
    ${isAcknowledged === true && markup`<p class="note">An operator has acknowledged this definition in the catalog.</p>`}
    ${hintsView(annotations)} ${definition === undefined ? markup`<p class="note">The whole definition cannot be read: it is not in the store, or the store does not answer.</p>` : foldedJson('The whole definition', definition)}
  </section>`;
}

function changedView({ definition: before, of }: EarlierTool, now: ToolDefinition | undefined): Html {
  const since =
    of === 'catalog' ? 'since an operator acknowledged it in the catalog' : 'since this run listed its tools';
  if (now === undefined)
    return markup`<h3>Changed ${since}</h3>
      <p>The new definition is not kept where this page can read it.</p>
      ${foldedJson('As it was', before)}`;
  return markup`<div class="changed">
    <h3>Changed ${since}</h3>
    ${definitionChangesView(definitionDiff(before, now))}
  </div>`;
}

const HINTS: readonly (readonly [string, string, string])[] = [
  ['readOnlyHint', 'it changes nothing', 'it changes something'],
  ['destructiveHint', 'it may destroy something', 'it destroys nothing'],
  ['idempotentHint', 'the same call again does no more', 'the same call again does it again'],
  ['openWorldHint', 'it reaches the world outside', 'it stays inside of its system'],
];

/** Hints of the server (MCP `ToolAnnotations`) in words; others stand in the definition. */
function hintsView(annotations: Asked['annotations']): Shown {
  const said = HINTS.flatMap(([name, yes, no]) => {
    const hint = annotations?.[name];
    return typeof hint === 'boolean' ? [hint ? yes : no] : [];
  });
  return said.length > 0 && markup`<p>By its hints, ${said.join('; ')}.</p>`;
}
