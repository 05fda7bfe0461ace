/**
 * The page of one catalog: its tools with what operators have set, what the last refresh changed, changes that wait.
 *
 * 1. It offers what `CatalogDetail.offers` says, and a toggle only in the directions that the viewer has a right to: a
 *    reader sees words, and no toggle.
 * 2. Every form names the version that was shown: another one is refused, and nothing is changed.
 */
import { randomUUID } from 'node:crypto';
import type { ToolChange, ToolSetting } from '../../../contracts/schemas/catalog.ts';
import type { CatalogDetail, CatalogTool, ShownPending } from '../../../contracts/schemas/http/catalogs.ts';
import { type Direction, directionsOf } from '../../../domain/catalog/settings.ts';
import { visible } from '../../../domain/text/escape.ts';
import { foreign } from '../kit/faithful.ts';
import { csrf, facts } from '../kit/layout.ts';
import { type Html, markup, type Shown } from '../kit/markup.ts';
import type { Viewer } from '../kit/port.ts';
import { clock, left } from '../kit/times.ts';
import { catalogPath, connectionFields, COUNTS, refreshWords } from './list.ts';

export const FLAGS = ['enabled', 'requiresApproval', 'denied'] as const;
export type Flag = (typeof FLAGS)[number];
const FLAG_NAMES: Readonly<Record<Flag, string>> = { enabled: 'Enabled', requiresApproval: 'Ask', denied: 'Deny' };

type Counted = (typeof COUNTS)[number][0];

export function toolPath(server: string, tool: string): string {
  return `${catalogPath(server)}/tool?name=${encodeURIComponent(tool)}`;
}

/** True if the viewer has the right to turn this flag of this tool. */
export function mayTurn({ offers }: Pick<CatalogDetail, 'offers'>, setting: ToolSetting, flag: Flag): boolean {
  const needed = directionsOf(setting, { ...setting, [flag]: !setting[flag] });
  return [...needed].every((direction) => offers.includes(RIGHTS[direction]));
}

const RIGHTS = { loosens: 'loosen', tightens: 'tighten' } as const satisfies Record<Direction, string>;

export interface DetailPage {
  readonly detail: CatalogDetail;
  readonly viewer: Viewer;
  /** Which tools are listed. */
  readonly show: string;
  readonly now: number;
}

/** One function, because it is one page. */
export function catalogView({ detail, viewer, show, now }: DetailPage): Html {
  const { server, status, url, connection, counts, lastRefresh, offers, may, version, newTools } = detail;
  return markup`<div class="head">
      <p class="crumbs"><a href="/catalogs">Catalogs</a></p>
      <h1>${foreign(server)}</h1>
      <p class="state"><span class="outcome ${status}">${status}</span></p>
    </div>
    ${detail.refreshing && markup`<p class="banner warning" role="status">A refresh goes on. Load the page again to see what it changes.</p>`}
    ${lastRefresh?.ok === false && markup`<div class="banner error" role="alert"><p>The last refresh failed, and has changed nothing: ${foreign(lastRefresh.message ?? '')}</p>${lastRefresh.code !== undefined && markup`<p class="code">${lastRefresh.code}</p>`}</div>`}
    <div class="columns">
      <div class="what">
        ${detail.pending.map((pending) => pendingView(detail, pending, viewer, now))} ${refreshedView(detail)}
        ${toolsView(detail, viewer, show)}
      </div>
      <aside class="decide" aria-label="Catalog">
        ${facts([
          ['URL', url !== undefined && foreign(url)],
          [
            'Credentials',
            status === 'connected' &&
              (connection?.credentials === undefined ? "the run's own" : foreign(connection.credentials)),
          ],
          ['Annotations', connection !== undefined && (connection.trusted ? 'believed' : 'not believed')],
          ['New tools', newTools === 'ask' ? 'are asked about' : 'follow the policy'],
          ['Last refresh', refreshWords(detail, now)],
          ['Version', version],
          ['Ledger', `${detail.ledger.length.toLocaleString('en')} entries`],
          ['You may', may.length === 0 ? 'read' : may.map((right, index) => [index > 0 && ', ', MAY[right]])],
        ])}
        ${offers.includes('refresh') && markup`<form method="post" action="${catalogPath(server)}/refresh">${bound(detail, viewer)}<button class="button primary">Refresh</button></form>`}
        ${offers.includes('connect') && connectView(detail, viewer)}
        ${
          offers.includes('disconnect') &&
          markup`<details class="choice">
            <summary>Disconnect</summary>
            <form method="post" action="${catalogPath(server)}/disconnect">
              ${bound(detail, viewer)}
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

/** Fields of every form: a form that is sent twice counts once. */
export function bound({ version }: Pick<CatalogDetail, 'version'>, viewer: Viewer): Html {
  return markup`${csrf(viewer)}<input type="hidden" name="requestId" value="${randomUUID()}" /><input
      type="hidden"
      name="version"
      value="${version}"
    />`;
}

function connectView(detail: CatalogDetail, viewer: Viewer): Html {
  const { server, status, connection, url } = detail;
  const now: Readonly<Record<string, string | undefined>> = {
    url,
    credentials: connection?.credentials,
    trusted: connection?.trusted === true ? 'yes' : '',
  };
  return markup`<details class="choice">
    <summary>${status === 'connected' ? 'Change the connection' : 'Connect again'}</summary>
    <form method="post" action="${catalogPath(server)}/connect">
      ${bound(detail, viewer)}${connectionFields((name) => now[name] ?? '')}<button class="button">
        ${status === 'connected' ? 'Change it' : 'Connect'}
      </button>
    </form>
  </details>`;
}

function refreshedView({ refreshed }: CatalogDetail): Shown {
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

function pendingView({ server }: CatalogDetail, pending: ShownPending, viewer: Viewer, now: number): Html {
  const { changeId, digest, by, deadline, changes, offers, trusted } = pending;
  const decide = (verdict: 'approve' | 'reject', label: string): Shown =>
    offers.includes(verdict) &&
    markup`<button class="button ${verdict}" name="verdict" value="${verdict}">${label}</button>`;
  return markup`<section class="changed-by" aria-label="Change that waits">
    <h2>A change waits for a second administrator</h2>
    <p class="note">Asked for by ${foreign(by.id)} · ${left(deadline, now)}</p>
    ${trusted !== undefined && markup`<p>Annotations of the server ${trusted ? 'would be believed' : 'would not be believed any more'}.</p>`}
    <ul>
      ${changes.map(({ change, before, after }) => markup`<li><code>${foreign(change.tool)}</code> ${before === undefined || after === undefined ? 'is not in the catalog any more' : changeWords(change, before, after)}</li>`)}
    </ul>
    ${
      offers.length > 0
        ? markup`<form method="post" action="${catalogPath(server)}/changes/${encodeURIComponent(changeId)}">
            ${csrf(viewer)}<input type="hidden" name="requestId" value="${randomUUID()}" /><input
              type="hidden"
              name="digest"
              value="${digest}"
            />
            <div class="actions">${decide('approve', 'Agree')}${decide('reject', 'Refuse')}</div>
          </form>`
        : markup`<p class="note">Not yours to decide.</p>`
    }
  </section>`;
}

function changeWords(change: ToolChange, before: ToolSetting, after: ToolSetting): Shown {
  const turned = FLAGS.filter((flag) => before[flag] !== after[flag]).map(
    (flag) => `${FLAG_NAMES[flag].toLowerCase()} ${after[flag] ? 'on' : 'off'}`,
  );
  const said = [
    ...turned,
    ...(change.approvers === undefined ? [] : ['other approvers']),
    ...(change.deadlineSeconds === undefined ? [] : ['another deadline']),
    ...(change.acknowledge === undefined ? [] : ['its definition acknowledged']),
  ];
  return said.join(', ');
}

const IS_COUNTED: Readonly<Record<Counted, (tool: CatalogTool) => boolean>> = {
  tools: () => true,
  enabled: ({ setting }) => setting.enabled,
  asking: ({ setting, changed }) => setting.enabled && !setting.denied && (setting.requiresApproval || changed),
  denied: ({ setting }) => setting.enabled && setting.denied,
  changed: ({ changed }) => changed,
  missing: ({ status }) => status === 'missing',
};

function toolsView(detail: CatalogDetail, viewer: Viewer, show: string): Html {
  const { server, counts, offers } = detail;
  const shown = COUNTS.find(([key]) => key === show)?.[0] ?? 'tools';
  const tools = detail.tools.filter(IS_COUNTED[shown]);
  const tabs = COUNTS.map(([key, name]) => {
    const to = key === 'tools' ? catalogPath(server) : `${catalogPath(server)}?show=${key}`;
    return markup`<a href="${to}" ${key === shown && markup` aria-current="true"`}>${name} <span class="count">${counts[key]}</span></a>`;
  });
  const isChangeable = offers.includes('loosen') || offers.includes('tighten');
  const table = markup`<table class="grid tools">
    <thead>
      <tr>
        <th scope="col">Tool</th>
        ${FLAGS.map((flag) => markup`<th scope="col" class="flag">${FLAG_NAMES[flag]}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${tools.map((tool, index) => toolRow(detail, tool, index, isChangeable))}
    </tbody>
  </table>`;
  return markup`<section aria-labelledby="tools">
    <h2 id="tools">Tools</h2>
    <div class="tabs wrap" role="group" aria-label="Which tools">${tabs}</div>
    ${tools.length === 0 && markup`<p class="note">None.</p>`}
    ${
      tools.length > 0 &&
      (isChangeable
        ? markup`<form method="post" action="${catalogPath(server)}/tools">
            ${bound(detail, viewer)} ${table}
            <div class="actions">
              <button class="button primary">Save the changes</button
              ><span class="note">All of them count together, or none.</span>
            </div>
          </form>`
        : table)
    }
  </section>`;
}

function toolRow(detail: CatalogDetail, tool: CatalogTool, index: number, isChangeable: boolean): Html {
  const { name, status, changed, setting, verdict } = tool;
  return markup`<tr>
    <th scope="row">
      ${isChangeable && markup`<input type="hidden" name="tool.${index}" value="${name}" />`}
      <a href="${toolPath(detail.server, name)}"><code>${foreign(name)}</code></a>
      ${changed && markup`<span class="mark">definition changed</span>`}
      ${status === 'missing' && markup`<span class="mark">missing</span>`}
      <span class="note">${verdictWords(verdict)}</span>
    </th>
    ${FLAGS.map((flag) => {
      const label = `${visible(name)}: ${FLAG_NAMES[flag].toLowerCase()}`;
      const isOn = setting[flag];
      if (!isChangeable) return markup`<td class="flag" data-label="${FLAG_NAMES[flag]}">${isOn ? 'yes' : 'no'}</td>`;
      return markup`<td class="flag" data-label="${FLAG_NAMES[flag]}">
        <input type="checkbox" class="switch" name="${flag}.${index}" value="on" aria-label="${label}" ${isOn && markup` checked`} ${!mayTurn(detail, setting, flag) && markup` disabled`} />
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
