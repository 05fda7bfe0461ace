/**
 * The page of one request: what is asked, everything that the digest covers, and beside it the forms of
 * `gateway/page/answers.ts`.
 */
import type { ApprovalRequest, AuthorizationPause, InputPause, OutcomePause } from '../../contracts/schemas/request.ts';
import { inWords, ruleAt } from '../../domain/policy/approvers.ts';
import { permittedTo } from '../../domain/request/permitted.ts';
import { decideView } from './answers.ts';
import { conversationView } from './conversation.ts';
import { diff } from './kit/diff.ts';
import { alsoAsJson, foreign, foreignBlock, foreignList, rawJson, tree } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import { type Answering, facts, requestPath } from './kit/layout.ts';
import type { RunRead } from './kit/port.ts';
import { scopesView } from './scopes.ts';
import { toolView } from './tool.ts';
import { ago, clock, left, span } from './kit/times.ts';

export interface RequestPage extends Answering {
  readonly read: RunRead;
}

/** Titles: the words before the name of the tool. */
const HEADINGS = {
  consent: 'Allow',
  outcome: 'What became of',
  input: 'A question from',
  authorization: 'An authorization for',
} as const;

export function requestView(page: RequestPage): Html {
  const { read, request, viewer, now } = page;
  const { server, tool, callId, about, edited } = request;
  const permitted = permittedTo(request, viewer, now);
  return markup`<div class="head request-head">
      <p class="crumbs">
        <a href="/">Inbox</a> /
        <a href="/runs/${encodeURIComponent(read.facts.runId)}">${foreign(read.facts.runId)}</a> / ${callId}
      </p>
      <h1>
        ${HEADINGS[about?.kind ?? 'consent']} <span class="tool">${foreign(tool)}</span>
        <span class="server">on ${foreign(server)}</span>
      </h1>
      <p class="state">${statusWords(request, now)}</p>
    </div>
    <div class="columns">
      <div class="what">
        ${about !== undefined && aboutView(about)}
        ${warningsView(request)}
        <section aria-labelledby="arguments">
          <h2 id="arguments">Arguments</h2>
          ${tree(request.arguments)} ${alsoAsJson(request.arguments, markup`<a href="${requestPath(request)}/json">As JSON</a>`)}
        </section>
        ${
          edited !== undefined &&
          markup`<section aria-labelledby="edited">
            <h2 id="edited">Changed by ${foreign(edited.by)}</h2>
            ${diff(edited.proposed, request.arguments, 'All that will be sent stands above; what the model proposed, in the conversation.')}
          </section>`
        }
      </div>
      <aside class="decide" aria-label="Decide">${decideView(page, permitted)}</aside>
      <div class="what">
        <section aria-labelledby="why"><h2 id="why">${about === undefined ? 'Why a person is asked' : 'What policy says of the call'}</h2> ${whyView(request)}</section>
        ${toolView(request, page.tool)}
        <section aria-labelledby="known"><h2 id="known">Details</h2> ${detailsView(request, now)}</section>
        ${earlierView(read, request)} ${conversationView(read.messages, read.facts.runId)}
      </div>
    </div>`;
}

/** What everybody must read who approves the call, on whatever page they do it. */
export function warningsView({
  reopenedBecause,
  duplicateOf,
}: Pick<ApprovalRequest, 'reopenedBecause' | 'duplicateOf'>): Shown {
  return [
    reopenedBecause !== undefined && markup`<p class="banner warning">Asked again: ${foreign(reopenedBecause)}</p>`,
    duplicateOf !== undefined &&
      markup`<p class="banner warning">The same tool with the same arguments was asked for in call ${duplicateOf}. Each needs an approval of its own, or one that stands.</p>`,
  ];
}

export function argumentsView(request: ApprovalRequest): Html {
  return markup`<div class="head request-head">
      <p class="crumbs">
        <a href="/">Inbox</a> / <a href="${requestPath(request)}">${foreign(request.tool)}, ${request.callId}</a>
      </p>
      <h1>Arguments as JSON</h1>
    </div>
    <section class="card">${rawJson(request.arguments)}</section>`;
}

function statusWords({ status, openedAt, deadline, decidedBy, decidedAt }: ApprovalRequest, now: number): Shown {
  if (status === 'open') return [left(deadline, now), markup` · asked ${ago(openedAt, now)}`];
  return [
    markup`<span class="outcome ${status}">${status}</span>`,
    decidedBy !== undefined && markup` by ${foreign(decidedBy.id)}`,
    decidedAt !== undefined && markup`, ${clock(decidedAt)}`,
  ];
}

/** Only for consent is it a rule that asks. */
function whyView({ rules, explain = [], about }: ApprovalRequest): Html {
  return markup`<ul class="plain">
    ${explain.map(({ rule, text }) => markup`<li>${foreignBlock(text)}<span class="note">rule ${foreign(rule)}</span></li>`)}${explain.length === 0 && markup`<li>${about === undefined ? 'Asked' : 'Judged'} by ${foreignList(rules)}.</li>`}
  </ul>`;
}

function detailsView(request: ApprovalRequest, now: number): Html {
  const { approvers, openedAt, votes = [], extensions = [], grantExpiresAt, escalatedAt, standing } = request;
  return facts([
    ['May decide', foreign(inWords(ruleAt(approvers, now - Date.parse(openedAt))))],
    [
      'Agreed',
      votes.length > 0 && votes.map(({ approver, at }) => markup`<div>${foreign(approver.id)}, ${clock(at)}</div>`),
    ],
    ['Others asked since', escalatedAt !== undefined && clock(escalatedAt)],
    [
      'Postponed',
      extensions.length > 0 &&
        extensions.map(({ approver, until }) => markup`<div>to ${clock(until)} by ${foreign(approver.id)}</div>`),
    ],
    ['Deadline', clock(request.deadline)],
    [
      'An approval holds',
      approvers.validForSeconds !== undefined && `${span(approvers.validForSeconds * 1_000)} after it is complete`,
    ],
    ['Grant ends', grantExpiresAt !== undefined && markup`${clock(grantExpiresAt)}, before the deadline`],
    ['Answered by decision', standing !== undefined && foreign(standing)],
    ['Server', foreign(request.serverUrl)],
    ['Called by', request.hosted !== undefined && markup`the provider of model ${foreign(request.hosted)}`],
    ['Definition', markup`<code>${request.definitionHash.slice(0, 16)}…</code>`],
    ['Digest', markup`<code class="digest">${request.digest}</code>`],
    ['Temporal run', markup`<code>${request.runId}</code>`],
  ]);
}

function earlierView({ ledger }: RunRead, { tool, server, callId }: ApprovalRequest): Shown {
  const same = new Set(
    ledger.flatMap(({ fact }) =>
      fact.kind === 'verdict' && fact.tool === tool && fact.server === server && fact.callId !== callId
        ? [fact.callId]
        : [],
    ),
  );
  if (same.size === 0) return undefined;
  const outcomes = ledger.flatMap(({ fact, at }) =>
    fact.kind === 'outcome' && same.has(fact.callId) ? [{ callId: fact.callId, outcome: fact.outcome, at }] : [],
  );
  return markup`<section aria-labelledby="earlier">
    <h2 id="earlier">This tool, earlier in this run</h2>
    <p>${same.size} ${same.size === 1 ? 'call' : 'calls'}.</p>
    <ul class="plain">
      ${outcomes.slice(-SHOWN_EARLIER).map(({ callId: id, outcome, at }) => markup`<li><span class="outcome ${outcome}">${outcome}</span> ${id}, ${clock(at)}</li>`)}
    </ul>
  </section>`;
}

const SHOWN_EARLIER = 10;

function aboutView(about: OutcomePause | InputPause | AuthorizationPause): Html {
  switch (about.kind) {
    case 'outcome':
      return markup`<section aria-labelledby="known-of">
        <h2 id="known-of">What is known</h2>
        <p>
          The call ${about.sentAt === undefined ? 'may have been sent' : 'was sent'}, and may or may not have run. Look
          at the server before you answer.
        </p>
        ${foreignBlock(about.message)}${facts([
          ['Sent at', about.sentAt !== undefined && clock(about.sentAt)],
          ['Handed to a worker at', about.handedAt !== undefined && clock(about.handedAt)],
          ['Attempt', about.attempt],
          ['Bytes of an answer', about.bytes],
          ['Last progress', about.lastProgress],
          ['Token', about.token?.jti !== undefined && foreign(about.token.jti)],
        ])}
      </section>`;
    case 'input':
      return markup`<section aria-labelledby="asks">
        <h2 id="asks">What the server asks</h2>
        <p class="note">Words of the server. What you answer goes to it, and to nobody else.</p>
        ${Object.values(about.requests).map((question) => foreignBlock(question.message))}
      </section>`;
    case 'authorization':
      return markup`<section aria-labelledby="wants">
        <h2 id="wants">What the server wants</h2>
        ${foreignBlock(about.message)}
        <div>${wantsWords(about)}</div>
      </section>`;
  }
}

function wantsWords({ wants, scopes }: AuthorizationPause): Shown {
  if (wants === 'grant') return 'The authorization of the run is no longer good: who gave it gives a fresh one.';
  if (scopes === undefined) return 'Consent to another try.';
  return markup`Consent to these scopes, for this call alone: ${scopesView(scopes)}`;
}
