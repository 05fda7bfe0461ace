/**
 * The page of one request: what is asked, everything that the digest covers, and what this person may do.
 *
 * 1. A form repeats the digest that the page showed; a request that changed meanwhile is refused (INV-G2).
 * 2. It offers what `choicesOf` says, and nothing else.
 */
import { randomUUID } from 'node:crypto';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { ApprovalRequest, AuthorizationPause, InputPause, OutcomePause } from '../../contracts/schemas/request.ts';
import type { FormField, InputRequest } from '../../contracts/schemas/input.ts';
import { describeRule, ruleAt } from '../../domain/policy/approvers.ts';
import { type Choices, choicesOf } from '../../domain/request/choices.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { foreign, foreignBlock, rawJson, tree } from './faithful.ts';
import { type Html, html, type Shown } from './html.ts';
import { QUESTIONS, requestPath } from './inbox.ts';
import { csrf, facts } from './layout.ts';
import type { RunRead, Viewer } from './port.ts';
import { ago, clock, left, span } from './times.ts';

/** What a refused form had in it, so that nothing typed is lost. */
export type Typed = Readonly<Record<string, string>>;

export interface RequestPage {
  readonly read: RunRead;
  readonly request: ApprovalRequest;
  readonly viewer: Viewer;
  /** Epoch ms. */
  readonly now: number;
  readonly typed?: Typed;
}

export function requestView(page: RequestPage): Html {
  const { read, request, viewer, now } = page;
  const { server, tool, callId, status, about, description, edited } = request;
  const choices = choicesOf(request, viewer, now);
  return html`<div class="head request-head">
      <p class="crumbs">
        <a href="/">Inbox</a> /
        <a href="/runs/${encodeURIComponent(read.facts.runId)}">${foreign(read.facts.runId)}</a> / ${callId}
      </p>
      <h1>
        ${about === undefined ? 'Allow' : QUESTIONS[about.kind]} <span class="tool">${foreign(tool)}</span>
        <span class="server">on ${foreign(server)}</span>
      </h1>
      <p class="state">${statusWords(request, now)}</p>
    </div>
    <div class="columns">
      <div class="what">
        ${about !== undefined && aboutView(about)}
        ${request.reopenedBecause !== undefined && html`<p class="banner warning">Asked again: ${foreign(request.reopenedBecause)}</p>`}
        ${request.duplicateOf !== undefined && html`<p class="banner warning">The same tool with the same arguments was asked for in call ${request.duplicateOf}. Each needs an approval of its own, or one that stands.</p>`}
        <section aria-labelledby="arguments">
          <h2 id="arguments">Arguments</h2>
          ${tree(request.arguments)}
          <details class="fold">
            <summary>As JSON</summary>
            ${rawJson(request.arguments)}
          </details>
        </section>
        ${
          edited !== undefined &&
          html`<section aria-labelledby="edited">
            <h2 id="edited">Changed by ${foreign(edited.by)}</h2>
            ${diff(edited.proposed, request.arguments)}
          </section>`
        }
        </div>
<aside class="decide" aria-label="Decide">${decideView(page, choices)}</aside>
<div class="what"><section aria-labelledby="why">
          <h2 id="why">Why a person is asked</h2>
          ${whyView(request)}
        </section>
        ${
          description !== undefined &&
          html`<section aria-labelledby="says">
            <h2 id="says">What the server says of its tool</h2>
            <p class="note">Words of the server, which may be untrue.</p>
            ${foreignBlock(description)}
          </section>`
        }
        <section aria-labelledby="known">
          <h2 id="known">Details</h2>
          ${detailsView(request, now)}
        </section>
        ${earlierView(read, request)} ${conversationView(read)}
      </div>
      <aside class="decide" aria-label="Decide">${decideView(page, choices)}</aside>
    </div>`;
}

function statusWords({ status, openedAt, deadline, decidedBy, decidedAt }: ApprovalRequest, now: number): Shown {
  if (status === 'open') return [left(deadline, now), html` · asked ${ago(openedAt, now)}`];
  return [
    html`<span class="outcome ${status}">${status}</span>`,
    decidedBy !== undefined && html` by ${foreign(decidedBy.id)}`,
    decidedAt !== undefined && html`, ${clock(decidedAt)}`,
  ];
}

function whyView({ rules, explain = [] }: ApprovalRequest): Html {
  return html`<ul class="plain">
    ${explain.map(({ rule, text }) => html`<li>${foreignBlock(text)}<span class="note">rule ${foreign(rule)}</span></li>`)}${explain.length === 0 && html`<li>Asked by ${rules.map((rule, index) => [index > 0 && ', ', foreign(rule)])}.</li>`}
  </ul>`;
}

function detailsView(request: ApprovalRequest, now: number): Html {
  const {
    approvers,
    openedAt,
    votes = [],
    extensions = [],
    annotations,
    grantExpiresAt,
    escalatedAt,
    standing,
  } = request;
  return facts([
    ['May decide', foreign(describeRule(ruleAt(approvers, now - Date.parse(openedAt))))],
    [
      'Agreed',
      votes.length > 0 && votes.map(({ approver, at }) => html`<div>${foreign(approver.id)}, ${clock(at)}</div>`),
    ],
    ['Others asked since', escalatedAt !== undefined && clock(escalatedAt)],
    [
      'Postponed',
      extensions.length > 0 &&
        extensions.map(({ approver, until }) => html`<div>to ${clock(until)} by ${foreign(approver.id)}</div>`),
    ],
    ['Deadline', clock(request.deadline)],
    [
      'An approval holds',
      approvers.validForSeconds !== undefined && `${span(approvers.validForSeconds * 1_000)} after it is complete`,
    ],
    ['Grant ends', grantExpiresAt !== undefined && html`${clock(grantExpiresAt)}, before the deadline`],
    ['Answered by decision', standing !== undefined && foreign(standing)],
    ['Server', foreign(request.serverUrl)],
    ['Tool hints', annotations !== undefined && foreign(canonicalJson(annotations))],
    ['Definition', html`<code>${request.definitionHash.slice(0, 16)}…</code>`],
    ['Digest', html`<code class="digest">${request.digest}</code>`],
    ['Temporal run', html`<code>${request.runId}</code>`],
  ]);
}

/** Calls of this tool in this run before this one. */
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
  return html`<section aria-labelledby="earlier">
    <h2 id="earlier">This tool, earlier in this run</h2>
    <p>${same.size} ${same.size === 1 ? 'call' : 'calls'}.</p>
    <ul class="plain">
      ${outcomes.slice(-SHOWN_EARLIER).map(({ callId: id, outcome, at }) => html`<li><span class="outcome ${outcome}">${outcome}</span> ${id}, ${clock(at)}</li>`)}
    </ul>
  </section>`;
}

const SHOWN_EARLIER = 10;

export function conversationView({ messages }: RunRead): Shown {
  if (messages.length === 0) return undefined;
  return html`<section aria-labelledby="talk">
    <h2 id="talk">The conversation so far</h2>
    <p class="note">Words of people, of the model and of tools.</p>
    <ol class="talk">
      ${messages.map((message) => {
        switch (message.role) {
          case 'system':
            return html`<li class="said system">
              <h3>Instructions</h3>
              <details class="fold">
                <summary>Show</summary>
                ${foreignBlock(message.text)}
              </details>
            </li>`;
          case 'user':
            return html`<li class="said user">
              <h3>${message.from === undefined ? 'Task' : foreign(message.from)}</h3>
              ${foreignBlock(message.text)}
            </li>`;
          case 'assistant':
            return html`<li class="said model">
              <h3>Model</h3>
              ${message.parts.map((part) =>
                part.type === 'call'
                  ? html`<details class="fold call">
                      <summary>calls ${foreign(part.name)} <span class="note">${part.callId}</span></summary>
                      ${tree(part.arguments)}
                    </details>`
                  : part.type === 'text'
                    ? foreignBlock(part.text)
                    : html`<details class="fold">
                        <summary>Reasoning</summary>
                        ${foreignBlock(part.text)}
                      </details>`,
              )}
            </li>`;
          case 'tool':
            return html`<li class="said tools">
              <h3>Tools</h3>
              ${message.results.map(
                ({ callId, outcome }) =>
                  html`<details class="fold">
                    <summary><span class="outcome ${outcome.kind}">${outcome.kind}</span> ${callId}</summary>
                    ${rawJson(JSON.parse(JSON.stringify(outcome)) as JsonValue)}
                  </details>`,
              )}
            </li>`;
        }
      })}
    </ol>
  </section>`;
}

/** Shows members that differ, the old above the new. */
export function diff(before: Readonly<Record<string, JsonValue>>, after: Readonly<Record<string, JsonValue>>): Html {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = names.filter((name) => textOf(before[name]) !== textOf(after[name]));
  if (changed.length === 0) return html`<p class="note">Nothing differs.</p>`;
  return html`<dl class="diff">
      ${changed.map(
        (name) =>
          html`<div class="member">
            <dt>${foreign(name)}</dt>
            <dd>
              ${before[name] !== undefined && html`<del>${tree({ [name]: before[name] })}</del>`}${after[name] !== undefined && html`<ins>${tree({ [name]: after[name] })}</ins>`}
            </dd>
          </div>`,
      )}
    </dl>
    <p class="note">${names.length - changed.length} other arguments are as they were.</p>`;
}

function textOf(value: JsonValue | undefined): string {
  return value === undefined ? '' : canonicalJson(value);
}

function aboutView(about: OutcomePause | InputPause | AuthorizationPause): Html {
  switch (about.kind) {
    case 'outcome':
      return html`<section aria-labelledby="known-of">
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
      return html`<section aria-labelledby="asks">
        <h2 id="asks">What the server asks</h2>
        <p class="note">Words of the server. What you answer goes to it, and to nobody else.</p>
        ${Object.values(about.requests).map((question) => foreignBlock(question.message))}
      </section>`;
    case 'authorization':
      return html`<section aria-labelledby="wants">
        <h2 id="wants">What the server wants</h2>
        ${foreignBlock(about.message)}
        <p>${wantsWords(about)}</p>
      </section>`;
  }
}

function wantsWords({ wants, scopes }: AuthorizationPause): Shown {
  if (wants === 'grant') return 'The authorization of the run is no longer good: who gave it gives a fresh one.';
  if (scopes === undefined) return 'Consent to another try.';
  return [
    'Consent to these scopes, for this call alone: ',
    scopes.map((scope) => html`<code>${foreign(scope)}</code> `),
  ];
}

function decideView({ request, viewer, typed = {}, now }: RequestPage, choices: Choices): Html {
  if (request.status !== 'open' || now >= Date.parse(request.deadline))
    return html`<h2>Closed</h2>
      <p>Nothing can be decided here any more.</p>
      <p><a class="button" href="/">Back to the inbox</a></p>`;
  if (request.about !== undefined) return choices.answer ? answerView(request, viewer, typed) : notYours(request);
  const { approve, edit, reject, respond, withdraw, extendTo } = choices;
  if (!approve && !edit && !reject && !respond && !withdraw && extendTo === undefined) return notYours(request);
  const field = (name: string): string => typed[name] ?? '';
  return html`<h2>Your decision</h2>
    ${
      approve &&
      html`<form method="post" action="${requestPath(request)}" class="main-choice">
        ${binding(request, viewer)}<input type="hidden" name="kind" value="approve" />
        <label
          >Comment <span class="note">(kept in the ledger)</span
          ><textarea name="comment" rows="2" maxlength="4096">${field('comment')}</textarea>
        </label>
        ${choices.remember.length > 0 && rememberView(request, choices)}
        <button class="button approve" data-key="a">Approve</button>
      </form>`
    }
    ${
      withdraw &&
      html`<p class="note">You have agreed; others must, too.</p>
        <form method="post" action="${requestPath(request)}">
          ${binding(request, viewer)}<input type="hidden" name="kind" value="withdraw" /><button class="button">
            Take my approval back
          </button>
        </form>`
    }
    ${
      reject &&
      html`<form method="post" action="${requestPath(request)}">
        ${binding(request, viewer)}<input type="hidden" name="kind" value="reject" /><label
          >Reason <span class="note">(the model reads it)</span
          ><textarea name="reason" rows="2" required maxlength="4096" data-focus="r">
${field('reason')}</textarea></label
        ><button class="button reject">Reject</button>
      </form>`
    }
    ${
      edit &&
      html`<details class="choice" ${typed['kind'] === 'edit' && html` open`}>
        <summary>Approve with other arguments</summary>
        <form method="post" action="${requestPath(request)}/edit" data-edit>
          ${binding(request, viewer)}${editFields(request, typed)}<button class="button">
            Compare before approving
          </button>
        </form>
      </details>`
    }
    ${
      respond &&
      html`<details class="choice">
        <summary>Answer in the tool's place</summary>
        <form method="post" action="${requestPath(request)}">
          ${binding(request, viewer)}<input type="hidden" name="kind" value="respond" /><label
            >Answer <span class="note">(the model reads it; the tool does not run)</span
            ><textarea name="answer" rows="4" required maxlength="16384">${field('answer')}</textarea></label
          ><button class="button">Answer</button>
        </form>
      </details>`
    }
    ${
      extendTo !== undefined &&
      html`<details class="choice">
        <summary>Postpone the deadline</summary>
        <form method="post" action="${requestPath(request)}">
          ${binding(request, viewer)}<input type="hidden" name="kind" value="extend" /><label
            >New deadline, UTC <span class="note">(at most ${clock(extendTo)})</span
            ><input type="datetime-local" name="until" required max="${extendTo.slice(0, 16)}" /></label
          ><button class="button">Postpone</button>
        </form>
      </details>`
    }`;
}

function notYours({ approvers, openedAt }: ApprovalRequest): Html {
  return html`<h2>Not yours to decide</h2>
    <p>May decide: ${foreign(describeRule(ruleAt(approvers, Date.now() - Date.parse(openedAt))))}.</p>`;
}

/** What each form repeats of the request; a decision id of its own makes a form that is sent twice count once. */
function binding({ digest, runId }: ApprovalRequest, viewer: Viewer): Html {
  return html`${csrf(viewer)}<input type="hidden" name="digest" value="${digest}" /><input
      type="hidden"
      name="runId"
      value="${runId}"
    /><input type="hidden" name="decisionId" value="${randomUUID()}" />`;
}

function rememberView({ arguments: args }: ApprovalRequest, { remember }: Choices): Html {
  const words = {
    call: 'the same call again',
    tool: 'any call of this tool',
    arguments: 'calls with the same',
  } as const;
  return html`<fieldset>
    <legend>Also approve later in this run</legend>
    <label class="line"><input type="radio" name="remember" value="" checked /> nothing</label
    >${remember.map((scope) => html`<label class="line"><input type="radio" name="remember" value="${scope}" /> ${words[scope]}</label>`)}${remember.includes('arguments') && html`<div class="names">${Object.keys(args).map((name) => html`<label class="line"><input type="checkbox" name="names" value="${name}" /> ${foreign(name)}</label>`)}</div>`}
  </fieldset>`;
}

/** One field for each argument, of its kind; lists and objects as JSON. */
function editFields({ arguments: args }: ApprovalRequest, typed: Typed): Html {
  return html`${Object.entries(args).map(([name, value]) => {
      const given = typed[`argument.${name}`];
      const label = html`<span class="field-name">${foreign(name)} <span class="note">${kindOf(value)}</span></span>`;
      const key = `argument.${name}`;
      if (typeof value === 'boolean')
        return html`<label>${label}<select name="${key}"><option${(given ?? String(value)) === 'true' && html` selected`}>true</option><option${(given ?? String(value)) === 'false' && html` selected`}>false</option></select></label>`;
      if (typeof value === 'number')
        return html`<label
          >${label}<input name="${key}" inputmode="decimal" value="${given ?? String(value)}"
        /></label>`;
      const text = given ?? (typeof value === 'string' ? value : JSON.stringify(value, undefined, 2));
      return html`<label
        >${label}<textarea name="${key}" rows="${Math.min(8, text.split('\n').length)}">${text}</textarea>
      </label>`;
    })}<label
      ><span class="field-name">More arguments <span class="note">JSON object, may stay empty</span></span
      ><textarea name="more" rows="1">${typed['more'] ?? ''}</textarea>
    </label>`;
}

export function kindOf(value: JsonValue): 'text' | 'number' | 'yes or no' | 'JSON' {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'number') return 'number';
  return typeof value === 'boolean' ? 'yes or no' : 'JSON';
}

/** Shows what would be approved in place of what was proposed; nothing is sent yet. */
export function comparedView({ request, viewer }: RequestPage, changed: Readonly<Record<string, JsonValue>>): Html {
  return html`<div class="head">
      <p class="crumbs"><a href="${requestPath(request)}">Back to the request</a></p>
      <h1>Approve with other arguments</h1>
    </div>
    <section aria-labelledby="changes">
      <h2 id="changes">What you change</h2>
      ${diff(request.arguments, changed)}
    </section>
    <section aria-labelledby="whole">
      <h2 id="whole">What will be sent</h2>
      ${tree({ ...changed })}
      <details class="fold">
        <summary>As JSON</summary>
        ${rawJson({ ...changed })}
      </details>
    </section>
    <form method="post" action="${requestPath(request)}" class="main-choice">
      ${binding(request, viewer)}<input type="hidden" name="kind" value="approve" /><input
        type="hidden"
        name="arguments"
        value="${JSON.stringify(changed)}"
      /><label>Comment<textarea name="comment" rows="2" maxlength="4096"></textarea></label
      ><button class="button approve" data-key="a">Approve these arguments</button>
    </form>`;
}

function answerView(request: ApprovalRequest, viewer: Viewer, typed: Typed): Html {
  const { about } = request;
  const open = (kind: string, label: string, inner: Shown, look = ''): Html =>
    html`<form method="post" action="${requestPath(request)}">
      ${binding(request, viewer)}<input type="hidden" name="kind" value="${kind}" />${inner}<button
        class="button ${look}"
      >
        ${label}
      </button>
    </form>`;
  const words = (name: string, label: string): Html =>
    html`<label>${label}<textarea name="${name}" rows="3" required>${typed[name] ?? ''}</textarea></label>`;
  switch (about?.kind) {
    case undefined:
      return html``;
    case 'outcome':
      return html`<h2>What became of it?</h2>
        ${open('succeeded', 'It ran', words('result', 'Its result, for the model'), 'approve')}
        ${open('failed', 'It did not run', words('message', 'What happened, for the model'), 'reject')}
        ${open('retry', 'Send it again', html`<p class="note">With the same idempotency key. If it has run and the server does not know such keys, it runs twice.</p>`)}`;
    case 'input':
      return html`<h2>Your answer</h2>
        ${open(
          'provide',
          'Send the answer',
          Object.entries(about.requests).map(([key, question]) => questionView(key, question, typed)),
          'approve',
        )}
        ${open('decline', 'Decline', html`<p class="note">The server is told that you decline.</p>`, 'reject')}
        ${open('cancel', 'Give no answer', html`<p class="note">The server is told that nobody answers.</p>`)}`;
    case 'authorization':
      return html`<h2>Your answer</h2>
        ${
          about.wants === 'consent'
            ? open(
                'consent',
                'Consent',
                html`<label>Comment<textarea name="comment" rows="2"></textarea></label>`,
                'approve',
              )
            : html`<p>
                A fresh grant is given where its tokens are: by the library or <code>countersign authorize</code>, never
                in a page.
              </p>`
        }${open('decline', 'Decline', words('reason', 'Reason'), 'reject')}`;
  }
}

function questionView(key: string, question: InputRequest, typed: Typed): Html {
  if (question.kind === 'url')
    return html`<fieldset>
      <legend>${foreignBlock(question.message)}</legend>
      <p>
        It wants you to open a page of <strong>${foreign(question.host)}</strong>. Open it yourself, where you trust
        this host:
      </p>
      <p><code>${foreign(question.url)}</code></p>
      <label class="line"
        ><input type="checkbox" name="opened.${key}" value="yes" required /> I have done what the page asks</label
      >
    </fieldset>`;
  return html`<fieldset>
    <legend>${foreignBlock(question.message)}</legend>
    ${Object.entries(question.fields).map(([name, field]) => fieldView(`field.${key}.${name}`, name, field, question.required.includes(name), typed))}
  </fieldset>`;
}

function fieldView(id: string, name: string, field: FormField, required: boolean, typed: Typed): Html {
  const needed = required && html` required`;
  const label = html`<span class="field-name"
      >${foreign(field.title ?? name)} <span class="note">${required ? 'required' : 'may stay empty'}</span></span
    >${field.description !== undefined && html`<span class="note">${foreign(field.description)}</span>`}`;
  const value = typed[id] ?? (field.default === undefined ? '' : String(field.default));
  switch (field.type) {
    case 'text':
      return html`<label
        >${label}<input name="${id}" type="${TYPES[field.format ?? 'text']}" value="${value}" ${needed}
      /></label>`;
    case 'number':
    case 'integer':
      return html`<label>${label}<input name="${id}" inputmode="decimal" value="${value}" ${needed} /></label>`;
    case 'boolean':
      return html`<label>${label}<select name="${id}"${needed}><option value=""></option><option${value === 'true' && html` selected`}>true</option><option${value === 'false' && html` selected`}>false</option></select></label>`;
    case 'choice':
      return html`<label
        >${label}<select name="${id}" ${needed}>
          <option value=""></option>
          ${field.options.map((option) => html`<option value="${option.value}" ${value === option.value && html` selected`}>${option.title ?? option.value}</option>`)}
        </select></label
      >`;
    case 'choices':
      return html`<fieldset>
        <legend>${label}</legend>
        ${field.options.map((option) => html`<label class="line"><input type="checkbox" name="${id}" value="${option.value}" ${(field.default ?? []).includes(option.value) && html` checked`} /> ${foreign(option.title ?? option.value)}</label>`)}
      </fieldset>`;
  }
}

const TYPES = { text: 'text', email: 'email', uri: 'url', date: 'date', 'date-time': 'text' } as const;
