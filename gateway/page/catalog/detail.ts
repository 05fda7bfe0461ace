/**
 * The page of one catalog: its tools with what operators have set, what the last refresh changed, changes that wait.
 *
 * 1. It offers what `CatalogDetail.offers` says, and a toggle only in the directions that the viewer has a right to: a
 *    reader sees words, and no toggle.
 * 2. The form says of each switch that can be turned how it was shown: browsers do not send one that is disabled or
 *    off.
 * 3. Every form names the version that was shown: another one is refused, and nothing is changed.
 * 4. A refused form stands before the catalog of now: switches stay as they were turned, and are marked as not saved.
 */
import { randomUUID } from 'node:crypto';
import type { ToolChange, ToolSetting } from '../../../contracts/schemas/catalog.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { CatalogDetail, CatalogTool, ShownPending } from '../../../contracts/schemas/http/catalogs.ts';
import { type Direction, directionsOf } from '../../../domain/catalog/settings.ts';
import type { CountersignError } from '../../../contracts/errors.ts';
import { visible } from '../../../domain/text/escape.ts';
import { IS_COUNTED } from '../../catalog/shown.ts';
import { detailOf } from '../../http/problem.ts';
import { differences, differencesView } from '../kit/diff.ts';
import { foreign } from '../kit/faithful.ts';
import { csrf, facts, hidden } from '../kit/layout.ts';
import { type Html, markup, type Shown } from '../kit/markup.ts';
import type { Viewer } from '../kit/port.ts';
import { clock, left } from '../kit/times.ts';
import { changesIn, type Flag, FLAGS, type RefusedForm, toolAt } from './form.ts';
import { catalogPath, connectionFields, COUNTS, refreshWords } from './list.ts';

const FLAG_NAMES: Readonly<Record<Flag, string>> = { enabled: 'Enabled', requiresApproval: 'Ask', denied: 'Deny' };

export function toolPath(server: string, tool: string): string {
  return `${catalogPath(server)}/tool?name=${encodeURIComponent(tool)}`;
}

/** True if the viewer has the right to turn this flag of this tool. */
function mayTurn({ offers }: Pick<CatalogDetail, 'offers'>, setting: ToolSetting, flag: Flag): boolean {
  const needed = directionsOf(setting, { ...setting, [flag]: !setting[flag] });
  return [...needed].every((direction) => offers.includes(RIGHTS[direction]));
}

const RIGHTS = { loosens: 'loosen', tightens: 'tighten' } as const satisfies Record<Direction, string>;

export interface DetailPage {
  readonly detail: CatalogDetail;
  readonly viewer: Viewer;
  readonly show: string;
  readonly refused?: RefusedForm | undefined;
  readonly now: number;
}

/** One function, because it is one page. */
export function catalogView({ detail, viewer, show, refused, now }: DetailPage): Html {
  const { server, status, url, connection, counts, lastRefresh, offers, may, version, newTools } = detail;
  return markup`<div class="head">
      <p class="crumbs"><a href="/catalogs">Catalogs</a></p>
      <h1>${foreign(server)}</h1>
      <p class="state"><span class="outcome ${status}">${status}</span></p>
    </div>
    ${detail.refreshing && markup`<p class="banner warning" role="status">A refresh goes on. ${refused === undefined ? markup`This page shows its end<noscript>, when you load it again</noscript>.` : 'Load the page again to see what it changes.'}</p>`}
    ${lastRefresh?.ok === false && markup`<div class="banner error" role="alert"><p>The last refresh failed, and has changed nothing: ${foreign(lastRefresh.message ?? '')}</p>${lastRefresh.code !== undefined && markup`<p class="code">${lastRefresh.code}</p>`}</div>`}
    <div class="columns">
      <div class="what">
        ${detail.pending.map((pending) => pendingView({ detail, viewer, show, now }, pending))} ${changedByRefresh(detail.refreshed)}${refusedByRefresh(lastRefresh)}
        ${toolsView(detail, viewer, show, refused)}
      </div>
      <aside class="decide" aria-label="Catalog">
        ${facts([
          ['URL', url !== undefined && foreign(url)],
          [
            'Credentials',
            status === 'connected' &&
              (connection?.credentials === undefined ? "the run's own" : foreign(connection.credentials)),
          ],
          ['Queue', connection?.taskQueue !== undefined && foreign(connection.taskQueue)],
          ['Annotations', connection !== undefined && (connection.trusted ? 'believed' : 'not believed')],
          ['New tools', newTools === 'ask' ? 'are asked about' : 'follow the policy'],
          ['Last refresh', refreshWords(detail, now)],
          ['Version', version],
          ['Ledger', `${detail.ledger.length.toLocaleString('en')} entries`],
          ['You may', may.length === 0 ? 'read' : may.map((right, index) => [index > 0 && ', ', MAY[right]])],
        ])}
        ${offers.includes('refresh') && markup`<form method="post" action="${catalogPath(server)}/refresh">${bound(detail, viewer, show)}<button class="button primary">Refresh</button></form>`}
        ${offers.includes('connect') && connectView(detail, viewer, show, refused)}
        ${
          offers.includes('disconnect') &&
          markup`<details class="choice">
            <summary>Disconnect</summary>
            <form method="post" action="${catalogPath(server)}/disconnect">
              ${bound(detail, viewer, show)}
              <p class="note">No run is offered a tool of it any more, and calls that wait are refused. The settings stay.</p>
              <button class="button reject">Disconnect ${foreign(server)}</button>
            </form>
          </details>`
        }
      </aside>
    </div>
    ${counts.tools > 0 && markup`<p class="note">Tool names and definitions are words of the server.</p>`}`;
}

const MAY = { connect: 'connect and disconnect', loosen: 'loosen', tighten: 'tighten' } as const;

/** Fields of every form: a form that is sent twice counts once. @param show which tools are listed before and after */
export function bound({ version }: Pick<CatalogDetail, 'version'>, viewer: Viewer, show = ''): Html {
  const own = [hidden('requestId', randomUUID()), hidden('version', version)];
  return markup`${csrf(viewer)}${show !== '' && hidden('show', show)}${own}`;
}

function connectView(detail: CatalogDetail, viewer: Viewer, show: string, refused: RefusedForm | undefined): Html {
  const { server, status, connection, url } = detail;
  const now: Readonly<Record<string, string | undefined>> = {
    url,
    credentials: connection?.credentials,
    // A connection is sent whole: what its form has not would be gone.
    taskQueue: connection?.taskQueue,
    trusted: connection?.trusted === true ? 'yes' : '',
  };
  const own = refused?.to === 'connect' ? refused : undefined;
  return markup`<details class="choice" ${own !== undefined && markup` open`}>
    <summary>${status === 'connected' ? 'Change the connection' : 'Connect again'}</summary>
    <form method="post" action="${catalogPath(server)}/connect">
      ${bound({ version: own === undefined ? detail.version : versionTyped(own, detail.version) }, viewer, show)}
      ${connectionFields((name) => now[name] ?? '', own)}
      <button class="button">${status === 'connected' ? 'Change it' : 'Connect'}</button>
    </form>
  </details>`;
}

/**
 * The fields were typed over the connection of that version, and every field of it is sent again. With the version of
 * now, it would take back what somebody else has changed meanwhile, without a word. Once they are told, it may.
 */
function versionTyped({ form, error }: RefusedForm, now: number): number {
  const typed = form.get('version') ?? '';
  return error.code === 'CATALOG_VERSION_CONFLICT' || !/^\d{1,9}$/.test(typed) ? now : Number(typed);
}

/** Tools that the server lists and that the catalog leaves out: nobody would look for them here. */
function refusedByRefresh(lastRefresh: CatalogDetail['lastRefresh']): Shown {
  if (lastRefresh === undefined || lastRefresh.refused.length === 0) return undefined;
  return markup`<section aria-labelledby="left-out">
    <h2 id="left-out">What the last refresh left out</h2>
    <p class="note">The server lists these, and no run is offered them.</p>
    <ul>
      ${lastRefresh.refused.map(({ name, reason }) => markup`<li><code>${foreign(name)}</code>: ${foreign(reason)}</li>`)}
    </ul>
  </section>`;
}

function changedByRefresh(refreshed: CatalogDetail['refreshed']): Shown {
  if (refreshed === undefined) return undefined;
  const { added, missing, returned, changed } = refreshed;
  const lists = [
    ['New', added],
    ['Changed', changed.map(({ tool }) => tool)],
    ['Gone', missing],
    ['Back', returned],
  ] as const;
  const some = lists.filter(([, names]) => names.length > 0);
  return markup`<section aria-labelledby="refreshed">
    <h2 id="refreshed">What the last refresh changed</h2>
    ${some.length === 0 ? markup`<p class="note">Nothing: the server lists what it listed before.</p>` : facts(some.map(([name, names]) => [name, namesView(names)]))}
    <p class="note">${clock(refreshed.at)}</p>
  </section>`;
}

const MOST_NAMED = 20;

function namesView(names: readonly string[]): Shown {
  const more = names.length - MOST_NAMED;
  return [
    names.slice(0, MOST_NAMED).map((name, index) => [index > 0 && ', ', markup`<code>${foreign(name)}</code>`]),
    more > 0 && ` and ${more} more`,
  ];
}

function pendingView({ detail, viewer, show, now }: Omit<DetailPage, 'refused'>, pending: ShownPending): Html {
  const { server } = detail;
  const { changeId, digest, by, deadline, changes, trusted } = pending;
  const isOutdated = changes.some(
    ({ change: { tool, acknowledge } }) => acknowledge !== undefined && !isCurrent(detail, tool, acknowledge),
  );
  // Nobody can read here what they would agree to.
  const offers = isOutdated ? pending.offers.filter((verdict) => verdict !== 'approve') : pending.offers;
  const decide = (verdict: 'approve' | 'reject', label: string): Shown =>
    offers.includes(verdict) &&
    markup`<button class="button ${verdict}" name="verdict" value="${verdict}">${label}</button>`;
  return markup`<section class="changed-by" aria-label="Change that waits">
    <h2>A change waits for a second administrator</h2>
    <p class="note">Asked for by ${foreign(by.id)} · ${left(deadline, now)}</p>
    ${trusted !== undefined && markup`<p>Annotations of the server ${trusted ? 'would be believed' : 'would not be believed any more'}.</p>`}
    <ul>
      ${changes.map((each) => markup`<li><code>${foreign(each.change.tool)}</code> ${changeView(detail, each)}</li>`)}
    </ul>
    ${isOutdated && markup`<p class="note">A definition has changed since this was asked for, so nobody can agree to it. Ask anew.</p>`}
    ${
      offers.length > 0
        ? markup`<form method="post" action="${catalogPath(server)}/changes/${encodeURIComponent(changeId)}">
            ${bound(detail, viewer, show)}${hidden('digest', digest)}
            <div class="actions">${decide('approve', 'Agree')}${decide('reject', 'Refuse')}</div>
          </form>`
        : markup`<p class="note">Not yours to decide.</p>`
    }
  </section>`;
}

function changeView(
  detail: Pick<CatalogDetail, 'server' | 'tools'>,
  { change, before, after }: ShownPending['changes'][number],
): Html {
  if (before === undefined || after === undefined) return markup`is not in the catalog any more`;
  // Sound: settings come from JSON.
  const all = differences(before as unknown as JsonObject, after as unknown as JsonObject);
  return markup`${change.acknowledge !== undefined && acknowledgedView(detail, change.tool, change.acknowledge)}
  ${(all.length > 0 || change.acknowledge === undefined) && differencesView(all)}`;
}

function acknowledgedView(
  { server, tools }: Pick<CatalogDetail, 'server' | 'tools'>,
  tool: string,
  hash: string,
): Html {
  return markup`its definition acknowledged: <code>${hash}</code>
    ${isCurrent({ tools }, tool, hash) ? markup`<a href="${toolPath(server, tool)}">Read the definition</a>` : markup`<span class="mark">not its definition any more</span>`}`;
}

function isCurrent({ tools }: Pick<CatalogDetail, 'tools'>, tool: string, hash: string): boolean {
  return tools.some(({ name, definition }) => name === tool && definition === hash);
}

function toolsView(detail: CatalogDetail, viewer: Viewer, show: string, refused: RefusedForm | undefined): Html {
  const { server, counts, offers } = detail;
  const shown = COUNTS.find(([key]) => key === show)?.[0] ?? 'tools';
  const turned = new Map(refused?.to === 'tools' ? changesIn(refused.form).map((each) => [each.tool, each]) : []);
  const wrong = refused && toolAt(refused);
  // A tool with an unsaved switch is listed under every filter: the other person's change may have moved it.
  const tools = detail.tools.filter((tool) => IS_COUNTED[shown](tool) || turned.has(tool.name));
  const gone = [...turned.keys()].filter((name) => detail.tools.every((tool) => tool.name !== name));
  const tabs = COUNTS.map(([key, name]) => {
    const to = catalogPath(server, key === 'tools' ? '' : key);
    return markup`<a href="${to}" ${key === shown && markup` aria-current="true"`}>${name} <span class="count">${counts[key]}</span></a>`;
  });
  const isChangeable = offers.includes('loosen') || offers.includes('tighten');
  const table = markup`<table class="grid tools">
    <thead><tr><th scope="col">Tool</th>${FLAGS.map((flag) => markup`<th scope="col" class="flag">${FLAG_NAMES[flag]}</th>`)}</tr></thead>
    <tbody>
      ${tools.map((tool, index) => toolRow({ detail, tool, index, isChangeable, turned: turned.get(tool.name), problem: tool.name === wrong ? refused?.error : undefined }))}
    </tbody>
  </table>`;
  return markup`<section aria-labelledby="tools">
    <h2 id="tools">Tools</h2>
    <div class="tabs wrap" role="group" aria-label="Which tools">${tabs}</div>
    ${gone.length > 0 && markup`<p class="banner warning">Not in the catalog any more, and so not saved: ${namesView(gone)}</p>`}
    ${tools.length === 0 && markup`<p class="note">None.</p>`}
    ${
      tools.length > 0 &&
      (isChangeable
        ? markup`<form method="post" action="${catalogPath(server)}/tools">
            ${bound(detail, viewer, show)} ${table}
            <div class="actions">
              <button class="button primary">Save the changes</button>
              <span class="note">All of them count together, or none.</span>
            </div>
          </form>`
        : table)
    }
  </section>`;
}

interface Row {
  readonly detail: CatalogDetail;
  readonly tool: CatalogTool;
  readonly index: number;
  readonly isChangeable: boolean;
  readonly turned: ToolChange | undefined;
  readonly problem: CountersignError | undefined;
}

function toolRow({ detail, tool, index, isChangeable, turned, problem }: Row): Html {
  const { name, status, changed, setting, verdict } = tool;
  const unsaved = FLAGS.filter((flag) => turned?.[flag] !== undefined && turned[flag] !== setting[flag]);
  return markup`<tr>
    <th scope="row">
      ${isChangeable && hidden(`tool.${index}`, name)}
      <a href="${toolPath(detail.server, name)}"><code>${foreign(name)}</code></a>
      ${changed && markup`<span class="mark">definition changed</span>`}
      ${status === 'missing' && markup`<span class="mark">missing</span>`}
      ${unsaved.map((flag) => markup`<span class="mark">not saved: ${FLAG_NAMES[flag].toLowerCase()} ${turned?.[flag] === true ? 'on' : 'off'}</span>`)}
      <span class="note">${verdictWords(verdict)}</span>
      ${problem && markup`<span class="problem">${foreign(detailOf(problem))}</span>`}
    </th>
    ${FLAGS.map((flag) => {
      const label = `${visible(name)}: ${FLAG_NAMES[flag].toLowerCase()}`;
      const isOn = setting[flag];
      if (!isChangeable) return markup`<td class="flag" data-label="${FLAG_NAMES[flag]}">${isOn ? 'yes' : 'no'}</td>`;
      const isOpen = mayTurn(detail, setting, flag);
      const isChecked = isOpen ? (turned?.[flag] ?? isOn) : isOn;
      return markup`<td class="flag" data-label="${FLAG_NAMES[flag]}">
        ${isOpen && hidden(`shown.${flag}.${index}`, isOn ? 'on' : 'off')}<input type="checkbox" class="switch" name="${flag}.${index}" value="on" aria-label="${label}" ${isChecked && markup` checked`} ${!isOpen && markup` disabled`} />
      </td>`;
    })}
  </tr>`;
}

export function verdictWords(verdict: CatalogTool['verdict']): Shown {
  switch (verdict?.kind) {
    case undefined:
      return 'what follows cannot be read now';
    case 'allow':
      return 'calls leave at once';
    case 'deny':
      return 'calls are refused';
    case 'ask':
      return markup`asks ${foreign(verdict.approvers ?? '')}`;
  }
}
