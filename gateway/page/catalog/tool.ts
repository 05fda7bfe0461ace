/** The page of one tool of a catalog: its definition, what changed in it since an operator looked, what is set. */
import type { CatalogDetail, CatalogToolDetail } from '../../../contracts/schemas/http/catalogs.ts';
import { definitionChangesView } from '../kit/diff.ts';
import { foldedJson, foreign, foreignBlock, foreignList } from '../kit/faithful.ts';
import { facts, hidden } from '../kit/layout.ts';
import { type Html, markup, type Shown } from '../kit/markup.ts';
import type { Viewer } from '../kit/port.ts';
import { clock, span } from '../kit/times.ts';
import { bound, verdictWords } from './detail.ts';
import { catalogPath } from './list.ts';

export function catalogToolView(
  tool: CatalogToolDetail,
  { offers }: Pick<CatalogDetail, 'offers'>,
  viewer: Viewer,
): Html {
  const { name, server, status, definitions, verdict } = tool;
  const { current } = definitions;
  return markup`<div class="head">
      <p class="crumbs"><a href="/catalogs">Catalogs</a> / <a href="${catalogPath(server)}">${foreign(server)}</a></p>
      <h1><span class="tool">${foreign(name)}</span> <span class="server">on ${foreign(server)}</span></h1>
      <p class="state">${status === 'missing' ? markup`<span class="outcome failed">missing</span>` : verdictWords(verdict)}</p>
    </div>
    ${changedView(tool, offers, viewer)}
    <section class="card" aria-labelledby="definition">
      <h2 id="definition">What the server says of it</h2>
      <p class="note">Words of the server, which may be untrue.</p>
      ${current.description === undefined ? markup`<p class="empty-value">It says nothing.</p>` : foreignBlock(current.description)}
      ${foldedJson('The whole definition', current)}
    </section>
    ${setView(tool)}`;
}

/** What differs from the definition that was acknowledged, and the form that acknowledges the one of now. */
function changedView(tool: CatalogToolDetail, offers: CatalogDetail['offers'], viewer: Viewer): Shown {
  const { name, server, status, definitions, differences, definition, acknowledged } = tool;
  const isNew = definitions.acknowledged === undefined;
  if (!isNew && differences.length === 0) return undefined;
  const mayAcknowledge = offers.includes('loosen') && status === 'available' && acknowledged !== definition;
  return markup`<section class="card" aria-labelledby="differs">
    <h2 id="differs">${isNew ? 'Nobody has acknowledged it yet' : 'What has changed since it was acknowledged'}</h2>
    ${!isNew && definitionChangesView(differences)}
    ${
      mayAcknowledge &&
      markup`<form method="post" action="${catalogPath(server)}/acknowledge">
        ${bound(tool, viewer)}${hidden('tool', name)}${hidden('definition', definition)}
        <p class="note">
          Whoever acknowledges it has read it: calls are then judged by what is set, and no more asked about for the
          change.
        </p>
        <div class="actions"><button class="button approve">Acknowledge this definition</button></div>
      </form>`
    }
  </section>`;
}

function setView({ setting, firstSeen, lastSeen, definition, acknowledged }: CatalogToolDetail): Html {
  const { approvers, deadlineSeconds } = setting;
  const people = approvers && [...approvers.ids, ...approvers.groups];
  return markup`<section class="card" aria-labelledby="set">
    <h2 id="set">What is set</h2>
    ${facts([
      ['Enabled', setting.enabled ? 'yes' : 'no: agents do not see it'],
      ['Ask', setting.requiresApproval ? 'each call waits for a person' : 'as policy says'],
      ['Deny', setting.denied ? 'each call is refused' : 'no'],
      ['Approvers', people && foreignList(people)],
      ['Deadline', deadlineSeconds !== undefined && span(deadlineSeconds * 1_000)],
      ['First seen', clock(firstSeen)],
      ['Last seen', clock(lastSeen)],
      ['Definition', markup`<code>${definition}</code>`],
      [
        'Acknowledged',
        acknowledged !== undefined && acknowledged !== definition && markup`<code>${acknowledged}</code>`,
      ],
    ])}
    <p class="note">Approvers and deadlines of a tool are set by the API or <code>countersign catalog</code>.</p>
  </section>`;
}
