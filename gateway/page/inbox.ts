/** The page of what waits: sorted by deadline, one row for each request, several of them decided together. */
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { permittedTo } from '../../domain/request/permitted.ts';
import { shownArguments } from '../../domain/policy/redaction.ts';
import { visible } from '../../domain/text/escape.ts';
import { foreign } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import { csrf, requestPath } from './kit/layout.ts';
import type { Inbox, Listed, Viewer } from './kit/port.ts';
import { ago, clock, left } from './kit/times.ts';

/** Arguments of a request that stand in its row, and characters of each. */
const ROW_ARGUMENTS = 4;
const ROW_CHARACTERS = 60;

export function inboxView(inbox: Inbox, viewer: Viewer, everyone: boolean, now: number): Html {
  const { requests, mine, mineIsMore, more, moreIsMore, asOf } = inbox;
  return markup`<div class="head">
      <h1>
        ${everyone ? 'All open requests' : 'Waiting for you'}
        <span class="count">${counted(requests.length + (more ?? 0), moreIsMore)}</span>
      </h1>
      <div class="tabs" role="group" aria-label="Which requests">
        <a href="/" ${!everyone && markup` aria-current="true"`}>For you <span class="count">${counted(mine, mineIsMore)}</span></a>
        <a href="/?show=all" ${everyone && markup` aria-current="true"`}>All that you may see</a>
      </div>
    </div>
    ${requests.length === 0 ? empty(everyone) : list(requests, viewer, now)}
    ${more !== undefined && markup`<p class="note">${moreIsMore === true ? `At least ${more}` : more} more are not shown; decide some of these, or use the API's filters.</p>`}
    <p class="note">As of ${clock(asOf)}.</p>`;
}

/** A number of requests, as titles and tabs have it. @param isMore true if there are more than so many */
export function counted(count: number, isMore: boolean | undefined): string {
  return `${count}${isMore === true ? '+' : ''}`;
}

function empty(everyone: boolean): Html {
  return markup`<section class="empty">
    <h2>Nothing waits ${everyone ? 'for anybody' : 'for you'}</h2>
    <p>
      New requests appear here by themselves. Calls that policy allows run without a request; each run's page lists
      them.
    </p>
    <p><a class="button" href="/runs">See the runs</a></p>
  </section>`;
}

function list(requests: readonly Listed[], viewer: Viewer, now: number): Html {
  const rows = requests.map((listed) => row(listed, viewer, now));
  return markup`<form method="post" action="/review">
    ${csrf(viewer)}
    <ul class="requests" aria-label="Open requests">${rows}</ul>
    <div class="together">
      <button class="button">Review the chosen together</button>
      <span class="note">Each is shown once more before anything is decided.</span>
    </div>
  </form>`;
}

function row({ request, run }: Listed, viewer: Viewer, now: number): Html {
  const { callId, workflowId, server, tool, deadline, openedAt, about, digest } = request;
  const mayApprove = permittedTo(request, viewer, now).has('approve');
  return markup`<li class="row" data-row>
    <span class="pick">${mayApprove && markup`<input type="checkbox" name="chosen" value="${JSON.stringify([workflowId, callId, digest])}" aria-label="Choose ${visible(tool)}, call ${callId} of ${visible(workflowId)}" />`}</span>
    <a class="row-link" href="${requestPath(request)}"><span class="tool">${foreign(tool)}</span> <span class="server">on ${foreign(server)}</span></a>
    <span class="row-arguments">${marks(request)}${about === undefined ? summary(request) : markup`<span class="mark">${QUESTIONS[about.kind]}</span>`}</span>
    <span class="row-run">for ${foreign(run.initiator)} · <span class="run-id">${foreign(run.runId)}</span></span>
    <span class="row-votes">${votes(request)}</span>
    <span class="row-time">${left(deadline, now)}<span class="age">asked ${ago(openedAt, now)}</span></span>
  </li>`;
}

/** What an approver must know of a call before its arguments; the pages of review and request say more. */
function marks({ reopenedBecause, duplicateOf, edited }: Listed['request']): Shown {
  const said = [
    reopenedBecause !== undefined && 'Asked again',
    duplicateOf !== undefined && `Like call ${duplicateOf}`,
    edited !== undefined && 'Changed',
  ];
  return said.map((words) => words !== false && markup`<span class="mark">${words}</span> `);
}

const QUESTIONS = {
  outcome: 'What became of it?',
  input: 'The server asks',
  authorization: 'Needs an authorization',
} as const;

/** The first arguments in a line; it says how many there are beyond. */
function summary(request: ApprovalRequest): Shown {
  const all = Object.entries(shownArguments(request));
  const shown = all.slice(0, ROW_ARGUMENTS);
  return [
    ...shown.map(([name, value]) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      return markup`<span class="pair"><span class="name">${foreign(short(name))}</span> ${foreign(short(text))}</span> `;
    }),
    all.length > shown.length && markup`<span class="more">and ${all.length - shown.length} more</span>`,
    all.length === 0 && markup`<span class="more">no arguments</span>`,
  ];
}

function short(text: string): string {
  const points = [...text];
  return points.length <= ROW_CHARACTERS
    ? text
    : `${points.slice(0, ROW_CHARACTERS).join('')}… (+${points.length - ROW_CHARACTERS})`;
}

function votes({ votes: given = [] }: ApprovalRequest): Shown {
  return (
    given.length > 0 &&
    markup`<span class="mark good">${given.map(({ approver }) => [foreign(approver.id), ' '])} agreed</span>`
  );
}
