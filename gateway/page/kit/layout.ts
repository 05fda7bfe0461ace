/** The frame of every page: head, navigation, who is signed in. */
import { randomUUID } from 'node:crypto';
import type { CountersignError } from '../../../contracts/errors.ts';
import type { KnownTool } from '../../catalog/definitions.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { visible } from '../../../domain/text/escape.ts';
import { detailOf, isUncertain } from '../../http/problem.ts';
import { foreign } from './faithful.ts';
import { type Html, markup, type Shown } from './markup.ts';
import type { Place, Viewer } from './port.ts';

export interface Page {
  readonly title: string;
  readonly viewer?: Viewer;
  readonly at?: 'inbox' | 'runs' | Place;
  readonly main: Html;
  /** Set for pages that follow what happens: true, or the catalogs that they are about; `''` is all of them. */
  readonly live?: boolean | { readonly catalog: string };
  readonly waiting?: string;
}

export function pageText({ title, viewer, at, main, live = false, waiting = '0' }: Page): string {
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="same-origin">
<title>${waiting !== '0' && `(${waiting}) `}${visible(title)} · Countersign</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/page.css">
<script type="module" src="/assets/page.js"></script>
</head>
<body${live !== false && markup` data-live="${live === true ? '/live' : `/live?catalog=${encodeURIComponent(live.catalog)}`}"`}>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="brand" href="/">${MARK}<span>Countersign</span></a>
${
  viewer !== undefined &&
  markup`<nav aria-label="Pages">
      <a href="/" ${at === 'inbox' && markup` aria-current="page"`}>Inbox</a
      ><a href="/runs" ${at === 'runs' && markup` aria-current="page"`}>Runs</a
      >${viewer.places?.has('catalogs') === true && markup`<a href="/catalogs" ${at === 'catalogs' && markup` aria-current="page"`}>Catalogs</a>`}${viewer.places?.has('start') === true && markup`<a href="/start" ${at === 'start' && markup` aria-current="page"`}>Start</a>`}
    </nav>
    <div class="viewer">
      <span class="who" title="Groups: ${visible(viewer.groups.join(', ')) || 'none'}">${foreign(viewer.id)}</span
      ><form method="post" action="/sign-out">${csrf(viewer)}<button class="quiet">Sign out</button></form>
    </div>`
}
</header>
${viewer?.development === true && markup`<p class="banner warning" role="note">Development sign-in: anybody who reaches this port is believed. Never use it beyond this machine.</p>`}
<div id="notice" role="status" aria-live="polite"></div>
<main id="main" tabindex="-1">${main}</main>
<footer class="foot"><span id="link-state">${live !== false && markup`<noscript>Load this page again to see what has happened since.</noscript>`}</span> ${viewer !== undefined && markup`<span class="keys">Keys: <kbd>j</kbd> <kbd>k</kbd> move, <kbd>x</kbd> marks, <kbd>Enter</kbd> opens, <kbd>a</kbd> approve, <kbd>r</kbd> reject, <kbd>i</kbd> inbox</span>`}</footer>
</body>
</html>`.text;
}

export function csrf({ csrf: secret }: Viewer): Html {
  return hidden('csrf', secret);
}

export function hidden(name: string, value: string | number): Html {
  return markup`<input type="hidden" name="${name}" value="${value}" />`;
}

export function trouble(heading: string, message: string, code?: string, next?: string): Html {
  return markup`<section class="banner error" role="alert">
    <h2>${heading}</h2>
    <p>${foreign(message)}</p>
    ${next !== undefined && markup`<p>${next}</p>`}
    ${code !== undefined && markup`<p class="code">${code}</p>`}
  </section>`;
}

/** Says in a page why a form came back. @param next what to do, if it was refused */
export function refusalView(error: CountersignError, next?: string): Html {
  const [heading, then] = isUncertain(error)
    ? [
        'Nobody knows yet whether that counts',
        'Load the page again, and see whether it counts before you send it anew.',
      ]
    : ['That did not count', next];
  return trouble(heading, detailOf(error), error.code, then);
}

/** Shows beside a field what is wrong with it; `wrongField` has the attributes that lead there. */
export function problemView(id: string, reason: string | undefined): Shown {
  return reason !== undefined && markup`<p class="problem" id="${id}.problem">${foreign(reason)}</p>`;
}

export function wrongField(id: string, isWrong: boolean): Shown {
  return isWrong && markup` aria-invalid="true" aria-describedby="${id}.problem"`;
}

/** @param left what was typed into a form that was not sent, and its page: a browser that goes back has lost it */
export function signedOutText(
  words: string,
  { typed, to }: { readonly typed: readonly string[]; readonly to: string } = { typed: [], to: '/' },
): string {
  return pageText({
    title: 'Signed out',
    main: markup`<section class="card sign-in"><h1>Signed out</h1><p>${words}</p>${keptView(typed, 'copy it before you sign in')}<p><a class="button" href="/sign-in?to=${encodeURIComponent(to)}">Sign in</a></p></section>`,
  });
}

/** Shows what was typed into a form that is not shown again. */
export function keptView(typed: readonly string[], note: string): Html | undefined {
  const kept = typed.filter((text) => text.trim() !== '').join('\n\n');
  if (kept === '') return undefined;
  return markup`<label>What you typed <span class="note">(${note})</span><textarea readonly rows="6">\n${kept}</textarea></label>`;
}

export function facts(rows: readonly (readonly [string, Shown])[]): Html {
  const said = rows.filter(([, value]) => value !== undefined && value !== false);
  return markup`<dl class="facts">
    ${said.map(([name, value]) => markup`<div><dt>${name}</dt> <dd>${value}</dd></div>`)}
  </dl>`;
}

// What pages and forms of one request share.

/** Content of a refused form, so that nothing typed is lost. */
export type Typed = Readonly<Record<string, string>>;

export interface Answering {
  readonly request: ApprovalRequest;
  readonly tool: KnownTool;
  readonly viewer: Viewer;
  /** Epoch ms. */
  readonly now: number;
  readonly typed?: Typed;
  readonly refusal?: CountersignError | undefined;
}

export function requestPath({ workflowId, callId }: Pick<ApprovalRequest, 'workflowId' | 'callId'>): string {
  return `/runs/${encodeURIComponent(workflowId)}/requests/${encodeURIComponent(callId)}`;
}

/** Hidden fields that bind a form to its request; its own decision id makes a form that is sent twice count once. */
export function binding({ digest, runId }: ApprovalRequest, viewer: Viewer): Html {
  const own = hidden('decisionId', randomUUID());
  return markup`${csrf(viewer)}${hidden('digest', digest)}${hidden('runId', runId)}${own}`;
}

const MARK = markup`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="2" width="20" height="20" rx="6" class="mark-ground" />
  <path
    d="M6.5 14.5c2.2-6 3.8-7 4.6-6.2 1 1-2.4 6.3-.8 6.7 1.4.3 2.6-3.6 3.7-3.4 1 .2-.3 2.7 1 2.9.8.1 1.6-.5 2.5-1.6"
    class="mark-stroke"
  />
</svg>`;
