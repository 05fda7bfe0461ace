/** The page on which several requests are shown once more, before one decision goes to each of them. */
import { randomUUID } from 'node:crypto';
import { foreign, tree } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import { csrf, hidden, requestPath } from './kit/layout.ts';
import type { Listed, Viewer } from './kit/port.ts';
import { left } from './kit/times.ts';
import { warningsView } from './request.ts';

/** Characters of arguments, as JSON, that one review shows; the first request is shown in any case. */
const MOST_SHOWN = 262_144;

export function reviewView(chosen: readonly Listed[], gone: number, viewer: Viewer, now: number): Html {
  let size = 0;
  const end = chosen.findIndex(({ request }, index) => {
    size += JSON.stringify(request.arguments).length;
    return index > 0 && size > MOST_SHOWN;
  });
  const listed = end < 0 ? chosen : chosen.slice(0, end);
  const later = chosen.length - listed.length;
  const one = listed.length === 1;
  const all = one ? 'it' : `all ${listed.length}`;
  return markup`<div class="head">
      <p class="crumbs"><a href="/">Inbox</a></p>
      <h1>Review ${listed.length} ${one ? 'request' : 'requests'}</h1>
    </div>
    ${gone > 0 && markup`<p class="banner warning">${gone} of those that you chose changed or closed meanwhile, and ${gone === 1 ? 'is' : 'are'} not here.</p>`}
    ${later > 0 && markup`<p class="banner warning">${later} more of those that you chose ${later === 1 ? 'has' : 'have'} no room here, and ${later === 1 ? 'gets' : 'get'} no decision: choose ${later === 1 ? 'it' : 'them'} again in the inbox.</p>`}
    <form method="post" action="/review/decide">
      ${csrf(viewer)}
      <ol class="reviewed">
        ${listed.map(
          ({ request, run }) =>
            markup`<li class="card">
              ${hidden('chosen', JSON.stringify([request.workflowId, request.callId, request.digest, request.runId, randomUUID()]))}
              <h2><a href="${requestPath(request)}"><span class="tool">${foreign(request.tool)}</span> on ${foreign(request.server)}</a></h2>
              <p class="note">${foreign(run.runId)}, call ${request.callId} · ${left(request.deadline, now)}</p>
              ${warningsView(request)}
              ${request.edited !== undefined && markup`<p class="banner">Changed by ${foreign(request.edited.by)}: the model proposed other arguments.</p>`}
              ${tree(request.arguments)}
            </li>`,
        )}
      </ol>
      ${
        listed.length > 0 &&
        markup`<div class="together">
          <label>Comment or reason <textarea name="words" rows="1" maxlength="4096"></textarea></label>
          <button class="button approve" name="kind" value="approve" data-key="a">Approve ${all}</button>
          <button class="button reject" name="kind" value="reject">Reject ${all}</button>
        </div>`
      }
    </form>`;
}

export interface Told {
  readonly runId: string;
  readonly callId: string;
  readonly refused?: string;
  /** Set beside that if it may have been taken all the same. */
  readonly isUncertain?: true;
  /** Set if it was taken, and the call waits for others. */
  readonly waits?: true;
}

export function toldView(all: readonly Told[]): Html {
  const waiting = all.filter(({ waits }) => waits === true).length;
  const decided = all.filter(({ refused, waits }) => refused === undefined && waits === undefined).length;
  return markup`<div class="head">
      <p class="crumbs"><a href="/">Inbox</a></p>
      <h1>${decided} of ${all.length} decided${waiting > 0 && `, ${waiting} ${waiting === 1 ? 'waits' : 'wait'} for others`}</h1>
    </div>
    <ul class="plain card">
      ${all.map((each) => markup`<li>${endView(each)} <a href="/runs/${encodeURIComponent(each.runId)}">${foreign(each.runId)}</a>, call ${each.callId}${toldWords(each)}</li>`)}
    </ul>
    <p><a class="button" href="/">Back to the inbox</a></p>`;
}

function endView({ refused, isUncertain, waits }: Told): Html {
  if (isUncertain === true) return markup`<span class="outcome unknown">nobody knows yet</span>`;
  if (refused !== undefined) return markup`<span class="outcome failed">refused</span>`;
  return markup`<span class="outcome ${waits === true ? 'waiting' : 'succeeded'}">${waits === true ? 'agreed' : 'decided'}</span>`;
}

function toldWords({ refused, waits }: Told): Shown {
  if (refused !== undefined) return markup`: ${foreign(refused)}`;
  return waits === true && ': your approval counts; more people must agree';
}
