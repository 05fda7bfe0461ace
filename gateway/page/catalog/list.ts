/** The page of all catalogs: each server with the numbers of its tools, and the form that connects another. */
import { randomUUID } from 'node:crypto';
import type { CatalogCounts, CatalogPage, CatalogRow } from '../../../contracts/schemas/http/catalogs.ts';
import { detailOf } from '../../http/problem.ts';
import { foreign } from '../kit/faithful.ts';
import { csrf, hidden, problemView, wrongField } from '../kit/layout.ts';
import { type Html, markup, type Shown } from '../kit/markup.ts';
import type { Viewer } from '../kit/port.ts';
import { ago } from '../kit/times.ts';
import type { RefusedForm } from './form.ts';

export interface CatalogsPage {
  readonly page: CatalogPage;
  readonly viewer: Viewer;
  readonly mayConnect: boolean;
  readonly servers: readonly string[];
  readonly refused?: RefusedForm | undefined;
  readonly now: number;
}

/** @param show which tools are listed */
export function catalogPath(server: string, show = ''): string {
  return `/catalogs/${encodeURIComponent(server)}${show === '' ? '' : `?show=${encodeURIComponent(show)}`}`;
}

/** Columns of numbers: every tool counts for each that is true of it. */
export const COUNTS: readonly (readonly [keyof CatalogCounts, string])[] = [
  ['tools', 'Tools'],
  ['enabled', 'Enabled'],
  ['asking', 'Ask'],
  ['denied', 'Denied'],
  ['changed', 'Changed'],
  ['missing', 'Missing'],
];

export function catalogsView({ page, viewer, mayConnect, servers, refused, now }: CatalogsPage): Html {
  const { catalogs, unread } = page;
  const taken = new Set([...unread, ...catalogs.map(({ server }) => server)]);
  const free = servers.filter((name) => !taken.has(name));
  return markup`<div class="head">
      <h1>Catalogs <span class="count">${catalogs.length}</span></h1>
    </div>
    ${unread.length > 0 && unreadView(unread)}
    ${taken.size === 0 && emptyView(mayConnect)}${catalogs.length > 0 && tableView(catalogs, now)}
    ${mayConnect && connectView(viewer, free, refused)}`;
}

function unreadView(unread: readonly string[]): Html {
  const names = unread.map(
    (server, index) => markup`${index > 0 && ', '}<a href="${catalogPath(server)}">${foreign(server)}</a>`,
  );
  return markup`<p class="banner warning">No answer from the catalogs of ${names}. Load the page again; where that does not help, the page of such a catalog says why.</p>`;
}

function emptyView(mayConnect: boolean): Html {
  return markup`<section class="empty">
    <h2>No catalog yet</h2>
    <p>
      A catalog keeps what operators say of each tool of a server: enabled, asked about, denied. Without one, policy alone
      decides.${!mayConnect && ' An administrator of catalogs connects a server.'}
    </p>
  </section>`;
}

function tableView(catalogs: readonly CatalogRow[], now: number): Html {
  return markup`<table class="grid">
    <thead>
      <tr>
        <th scope="col">Server</th>
        ${COUNTS.map(([, name]) => markup`<th scope="col" class="number">${name}</th>`)}
        <th scope="col">Last refresh</th>
      </tr>
    </thead>
    <tbody>
      ${catalogs.map(
        (row) =>
          markup`<tr data-row>
            <th scope="row">
              <a href="${catalogPath(row.server)}">${foreign(row.server)}</a>
              <span class="outcome ${row.status}">${row.status}</span>
              ${row.waiting > 0 && markup`<span class="mark">${row.waiting} to decide</span>`}
              ${row.url !== undefined && markup`<span class="note">${foreign(row.url)}</span>`}
            </th>
            ${COUNTS.map(([key, name]) => markup`<td class="number" data-label="${name}">${row.counts[key]}</td>`)}
            <td data-label="Last refresh">${refreshWords(row, now)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

export function refreshWords(
  { refreshing, lastRefresh }: Pick<CatalogRow, 'refreshing' | 'lastRefresh'>,
  now: number,
): Shown {
  if (refreshing) return markup`<span class="mark">goes on</span>`;
  if (lastRefresh === undefined) return 'none';
  return [!lastRefresh.ok && markup`<span class="outcome failed">failed</span> `, ago(lastRefresh.at, now)];
}

function connectView(viewer: Viewer, free: readonly string[], refused: RefusedForm | undefined): Html {
  return markup`<details class="card choice" ${refused !== undefined && markup` open`}>
    <summary>Connect a server</summary>
    <form method="post" action="/catalogs" class="narrow">
      ${csrf(viewer)}${hidden('requestId', randomUUID())}
      <label>Server <span class="note">(${free.length > 0 ? 'one of the configuration, or another name' : 'a name for it'})</span>
        <input name="server" list="servers" required maxlength="64" value="${refused?.form.get('server') ?? ''}" autocomplete="off"${wrong('server', refused)} /></label>
      ${problemOf('server', refused)}
      <datalist id="servers">${free.map((name) => markup`<option value="${name}"></option>`)}</datalist>
      ${connectionFields(() => '', refused)}
      <div class="actions"><button class="button primary">Connect</button></div>
    </form>
  </details>`;
}

/**
 * Names credentials, and never holds any.
 * @param now values of the connection that there is
 * @param refused the form that was refused: what was typed into it stands in its place
 */
export function connectionFields(now: (name: string) => string, refused: RefusedForm | undefined): Html {
  const value = (name: string): string => (refused === undefined ? now(name) : (refused.form.get(name) ?? ''));
  const field = (name: string, label: string, note: string, bounds: Html): Html => markup`
    <label>${label} <span class="note">(${note})</span>
      <input name="${name}" ${bounds} value="${value(name)}"${wrong(name, refused)} /></label>
    ${problemOf(name, refused)}`;
  const short = markup`maxlength="64"`;
  return markup`${field('url', 'URL', 'may stay empty for a server of the configuration', markup`type="url" maxlength="2048"`)}
    ${field('credentials', 'Credentials', "a name in the configuration; empty: the run's own grant, or none", short)}
    ${field('taskQueue', 'Queue', 'of the workers that reach it; empty: that of all others', short)}
    <label class="line"><input type="checkbox" name="trusted" value="yes" ${value('trusted') === 'yes' && markup` checked`}${wrong('trusted', refused)} />
      Believe its annotations: they may exempt a call from asking</label>${problemOf('trusted', refused)}`;
}

function wrong(name: string, refused: RefusedForm | undefined): Shown {
  return wrongField(name, refused?.error.facts.path === name);
}

function problemOf(name: string, refused: RefusedForm | undefined): Shown {
  return problemView(name, refused?.error.facts.path === name ? detailOf(refused.error) : undefined);
}
