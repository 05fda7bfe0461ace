/** The page of one run: what it did, turn by turn, what it waits for, what it cost; and the list of runs. */
import { randomUUID } from 'node:crypto';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { MessagesState } from '../../contracts/schemas/run-state.ts';
import { foreign } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import { csrf, facts, hidden, keptView, requestPath, type Typed } from './kit/layout.ts';
import type { RunFacts, RunRead, Viewer } from './kit/port.ts';
import { conversationView } from './conversation.ts';
import { ago, clock, left } from './kit/times.ts';

export function runsView(runs: readonly RunFacts[], now: number): Html {
  return markup`<div class="head">
      <h1>Runs <span class="count">${runs.length}</span></h1>
    </div>
    ${
      runs.length === 0
        ? markup`<section class="empty">
            <h2>No runs yet</h2>
            <p>A backend starts runs with the library or the API, a person with <code>countersign start</code>.</p>
          </section>`
        : markup`<ul class="requests runs" aria-label="Runs">
            ${runs.map(
              ({ runId, initiator, startedAt, status }) =>
                markup`<li class="row" data-row>
                  <a class="row-link" href="/runs/${encodeURIComponent(runId)}">${foreign(runId)}</a>
                  <span class="row-run">for ${foreign(initiator)}</span>
                  <span class="outcome ${status}">${status}</span><span class="row-time">${ago(startedAt, now)}</span>
                </li>`,
            )}
          </ul>`
    }`;
}

/**
 * One function, because it is one page.
 * @param typed what a refused form held
 */
export function runView(
  { facts: run, state, requests, ledger, messages, mayTell, ...rest }: RunRead,
  viewer: Viewer,
  now: number,
  typed: Typed = {},
): Html {
  const open = requests.filter(({ status }) => status === 'open');
  // One that was terminated could not say so itself.
  const isOver = ENDED.has(state.status) || run.endedAt !== undefined;
  const takesWords = !isOver && mayTell;
  const status = isOver && !ENDED.has(state.status) ? run.status : state.status;
  return markup`<div class="head">
      <p class="crumbs"><a href="/runs">Runs</a></p>
      <h1>${foreign(run.runId)}</h1>
      <p class="state">
        <span class="outcome ${status}">${status}</span>${state.because !== undefined && markup` ${foreign(state.because)}`}
      </p>
    </div>
    <div class="columns">
      <div class="what">
        ${
          open.length > 0 &&
          markup`<section aria-labelledby="waits">
            <h2 id="waits">Waits for people</h2>
            <ul class="requests">
              ${open.map(
                (request) =>
                  markup`<li class="row" data-row>
                    <a class="row-link" href="${requestPath(request)}"><span class="tool">${foreign(request.tool)}</span> on ${foreign(request.server)}</a>
                    <span class="row-time">${left(request.deadline, now)}</span>
                  </li>`,
              )}
            </ul>
          </section>`
        }
        <section aria-labelledby="line">
          <h2 id="line">What happened</h2>
          ${timeline(ledger, state.spent?.currency)}
        </section>
        ${conversationView(messages, run.runId)}
      </div>
      <aside class="decide" aria-label="Run">
        ${facts([
          ['Started by', foreign(run.initiator)],
          ['Started', clock(run.startedAt)],
          ['Turns', state.turn],
          ['Calls', state.calls],
          [
            'Tokens',
            `${state.usage.inputTokens.toLocaleString('en')} in, ${state.usage.outputTokens.toLocaleString('en')} out`,
          ],
          ['Cost', state.spent !== undefined && money(state.spent.millionths, state.spent.currency)],
          [
            'Ledger',
            markup`${state.ledgerLength.toLocaleString('en')} ${state.ledgerLength === 1 ? 'entry' : 'entries'} ·
              <a href="/runs/${encodeURIComponent(run.runId)}/ledger">Check the ledger</a>`,
          ],
          ['Ledger head', markup`<code>${state.ledgerHead.slice(0, 16)}…</code>`],
          ...toldFacts(state.messages),
          [
            'Temporal UI',
            rest.temporalUi !== undefined && markup`<a href="${rest.temporalUi}" rel="noreferrer">Open</a>`,
          ],
        ])}
        ${!takesWords && keptView([typed['text'] ?? '', typed['reason'] ?? ''], 'copy it if you need it')}
        ${
          takesWords &&
          markup`<details class="choice"${typed['text'] !== undefined && markup` open`}>
              <summary>Say something to the agent</summary>
              <form method="post" action="/runs/${encodeURIComponent(run.runId)}/say">
                ${hidden('messageId', typed['messageId'] ?? randomUUID())}${csrf(viewer)}
                <label>Message<textarea name="text" rows="3" required maxlength="131072">\n${typed['text'] ?? ''}</textarea></label><button class="button">Send</button>
              </form>
            </details>
            <details class="choice"${typed['reason'] !== undefined && markup` open`}>
              <summary>Stop the run</summary>
              <form method="post" action="/runs/${encodeURIComponent(run.runId)}/stop">
                ${csrf(viewer)}
                <label>Reason<textarea name="reason" rows="2" required maxlength="1024">\n${typed['reason'] ?? ''}</textarea></label><button class="button reject">Stop</button>
              </form>
            </details>`
        }
      </aside>
    </div>`;
}

/** What was told to people: how many messages were sent, and each that was not; none where policy tells nobody. */
export function toldFacts(messages: MessagesState | undefined): readonly (readonly [string, Shown])[] {
  if (messages === undefined) return [];
  const { sent, underWay, failed, failures } = messages;
  return [
    ['Messages', `${sent} sent, ${underWay.length} under way, ${failed} given up`],
    ...underWay.map((each) => ['Not told yet', markup`${toldOf(each)}, since ${clock(each.since)}`] as const),
    ...failures.map(
      (each) =>
        [
          'Not told',
          markup`${toldOf(each)}, at ${clock(each.at)}: <code>${each.code}</code> ${foreign(each.message)}`,
        ] as const,
    ),
  ];
}

type ToldMessage = Pick<MessagesState['failures'][number], 'event' | 'calls' | 'channel'>;

function toldOf({ event, calls, channel }: ToldMessage): Html {
  return markup`<strong>${event}</strong> of ${calls.join(', ')} through ${foreign(channel)}`;
}

const ENDED: ReadonlySet<string> = new Set(['completed', 'stopped', 'limited', 'cancelled', 'failed']);

function timeline(ledger: readonly LedgerEntry[], currency = ''): Html {
  return markup`<ol class="timeline">
    ${ledger.map((entry) => markup`<li class="${classOf(entry)}"><span class="at">${clock(entry.at)}</span><span class="event">${words(entry, currency)}</span></li>`)}
  </ol>`;
}

function classOf({ fact }: LedgerEntry): string {
  if (fact.kind === 'turn.proposed') return 'turn';
  if (fact.kind === 'outcome') return `end ${fact.outcome}`;
  return fact.kind.startsWith('request.') || fact.kind.startsWith('decision.') ? 'people' : 'plain';
}

function money(millionths: number, currency: string): string {
  return `${(millionths / 1_000_000).toFixed(4)} ${currency}`;
}

function words({ fact }: LedgerEntry, currency: string): Shown {
  switch (fact.kind) {
    case 'run.started':
      return markup`Started by ${foreign(fact.initiator)} with ${foreign(fact.agent)} on ${foreign(fact.model)}`;
    case 'tools.discovered':
      return markup`${foreign(fact.server)}: ${fact.count} tools`;
    case 'turn.proposed':
      return markup`Turn ${fact.turn}:
        ${fact.calls === 0 ? 'an answer' : `${fact.calls} ${fact.calls === 1 ? 'call' : 'calls'}`}
        <span class="note">${(fact.usage.inputTokens + fact.usage.outputTokens).toLocaleString('en')} tokens${fact.cost !== undefined && `, ${money(fact.cost, currency)}`}</span>`;
    case 'verdict':
      return markup`<strong>${fact.verdict}</strong> ${fact.callId} ${foreign(fact.tool)} by
        ${fact.rules.map((rule) => [foreign(rule), ' '])}`;
    case 'request.opened':
      return markup`Request for ${fact.callId}, until ${clock(fact.deadline)}`;
    case 'decision.accepted':
      return markup`${foreign(fact.approver.id)}: ${fact.decision}${fact.edited !== undefined && ' with other arguments'}
      ${fact.callId}${fact.comment !== undefined && markup` “${foreign(fact.comment)}”`}`;
    case 'dispatched':
      return markup`${fact.callId} leaves, attempt ${fact.attempt}`;
    case 'outcome':
      return markup`<span class="outcome ${fact.outcome}">${fact.outcome}</span>
        ${fact.callId}${fact.code !== undefined && markup` <code>${fact.code}</code>`}`;
    case 'said':
      return markup`${foreign(fact.from)} wrote`;
    case 'stop.requested':
      return markup`${foreign(fact.by)} stops the run: ${foreign(fact.reason)}`;
    case 'run.ended':
      return markup`Ended: <span class="outcome ${fact.status}">${fact.status}</span>`;
    default:
      return markup`${fact.kind}${'callId' in fact && ` ${fact.callId}`}`;
  }
}
