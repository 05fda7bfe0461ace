/**
 * The forms by which a person answers a request.
 *
 * 1. A form repeats the digest that the page showed; a request that changed meanwhile is refused (INV-G2).
 * 2. It offers what `permittedTo` says, and nothing else.
 */
import type { RememberScope } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { inWords, ruleAt } from '../../domain/policy/approvers.ts';
import { rememberable } from '../../domain/request/onlooker.ts';
import type { Permission } from '../../domain/request/permitted.ts';
import { foreign } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import { type Answering, binding, hidden, requestPath, type Typed } from './kit/layout.ts';
import type { Viewer } from './kit/port.ts';
import { clock } from './kit/times.ts';
import { questionsView } from './question.ts';

/** One function, because it is the one list of what may be offered. @param permitted what `permittedTo` returns */
export function decideView(
  { request, viewer, typed = {}, refusal, now }: Omit<Answering, 'tool'>,
  permitted: ReadonlySet<Permission>,
): Html {
  if (request.status !== 'open' || now >= Date.parse(request.deadline))
    return markup`<h2>Closed</h2>
      <p>Nothing can be decided here any more.</p>
      <p><a class="button" href="/">Back to the inbox</a></p>`;
  if (permitted.size === 0) return notYours(request, now);
  const form = (kind: string, inner: Html): Html => formView(request, viewer, kind, inner);
  if (request.about !== undefined) return answerView(request.about, form, typed, refusal);
  const may = (permission: Permission): boolean => permitted.has(permission);
  const remember = rememberable(request, viewer, permitted);
  const field = (name: string): string => typed[name] ?? '';
  const approve = markup`<label>Comment <span class="note">(kept in the ledger)</span
      ><textarea name="comment" rows="2" maxlength="4096">${field('comment')}</textarea></label>
    ${remember.length > 0 && rememberView(request, remember)}
    <button class="button approve" data-key="a">Approve</button>`;
  const reject = markup`<label>Reason <span class="note">(the model reads it)</span
      ><textarea name="reason" rows="2" required maxlength="4096" data-focus="r">\n${field('reason')}</textarea></label>
    <button class="button reject">Reject</button>`;
  const respond = markup`<label>Answer <span class="note">(the model reads it; the tool does not run)</span
      ><textarea name="answer" rows="4" required maxlength="16384">${field('answer')}</textarea></label>
    <button class="button">Answer</button>`;
  const extend = markup`<label>New deadline, UTC <span class="note">(later than ${clock(request.deadline)})</span
      ><input type="datetime-local" name="until" required min="${request.deadline.slice(0, 16)}" /></label>
    <button class="button">Postpone</button>`;
  return markup`<h2>Your decision</h2>
    ${may('approve') && form('approve', approve)}
    ${
      may('withdraw') &&
      markup`<p class="note">You have agreed; others must, too.</p>
        ${form('withdraw', markup`<button class="button">Take my approval back</button>`)}`
    }
    ${may('reject') && form('reject', reject)}
    ${may('edit') && markup`<p class="choice"><a href="${requestPath(request)}/edit">Approve with other arguments</a></p>`}
    ${may('respond') && choiceView("Answer in the tool's place", form('respond', respond))}
    ${may('extend') && choiceView('Postpone the deadline', form('extend', extend))}`;
}

type FormOf = (kind: string, inner: Html) => Html;

function formView(request: ApprovalRequest, viewer: Viewer, kind: string, inner: Html): Html {
  return markup`<form method="post" action="${requestPath(request)}">
    ${binding(request, viewer)}${hidden('kind', kind)}${inner}
  </form>`;
}

function choiceView(summary: string, form: Html): Html {
  return markup`<details class="choice"><summary>${summary}</summary>${form}</details>`;
}

function notYours({ approvers, openedAt }: ApprovalRequest, now: number): Html {
  return markup`<h2>Not yours to decide</h2>
    <p>May decide: ${foreign(inWords(ruleAt(approvers, now - Date.parse(openedAt))))}.</p>`;
}

function rememberView({ arguments: args }: ApprovalRequest, remember: readonly RememberScope[]): Html {
  const words = {
    call: 'the same call again',
    tool: 'any call of this tool',
    arguments: 'calls with the same',
  } as const;
  return markup`<fieldset>
    <legend>Also approve later in this run</legend>
    <label class="line"><input type="radio" name="remember" value="" checked /> nothing</label
    >${remember.map((scope) => markup`<label class="line"><input type="radio" name="remember" value="${scope}" /> ${words[scope]}</label>`)}${remember.includes('arguments') && markup`<div class="names">${Object.keys(args).map((name, index) => markup`<label class="line"><input type="checkbox" name="names" value="${index}" /> ${foreign(name)}</label>`)}</div>`}
  </fieldset>`;
}

function answerView(
  about: NonNullable<ApprovalRequest['about']>,
  form: FormOf,
  typed: Typed,
  refusal: Answering['refusal'],
): Html {
  const open = (kind: string, label: string, inner: Shown, look = ''): Html =>
    form(kind, markup`${inner}<button class="button ${look}">${label}</button>`);
  const words = (name: string, label: string): Html =>
    markup`<label>${label}<textarea name="${name}" rows="3" required>${typed[name] ?? ''}</textarea></label>`;
  const note = (text: string): Html => markup`<p class="note">${text}</p>`;
  switch (about.kind) {
    case 'outcome':
      return markup`<h2>What became of it?</h2>
        ${open('succeeded', 'It ran', words('result', 'Its result, for the model'), 'approve')}
        ${open('failed', 'It did not run', words('message', 'What happened, for the model'), 'reject')}
        ${open('retry', 'Send it again', note('With the same idempotency key. If it has run and the server does not know such keys, it runs twice.'))}`;
    case 'input':
      return markup`<h2>Your answer</h2>
        ${open('provide', 'Send the answer', questionsView(about.requests, typed, refusal), 'approve')}
        ${open('decline', 'Decline', note('The server is told that you decline.'), 'reject')}
        ${open('cancel', 'Give no answer', note('The server is told that nobody answers.'))}`;
    case 'authorization': {
      const comment = markup`<label>Comment<textarea name="comment" rows="2">\n${typed['comment'] ?? ''}</textarea></label>`;
      return markup`<h2>Your answer</h2>
        ${
          about.wants === 'consent'
            ? open('consent', 'Consent', comment, 'approve')
            : markup`<p>
                A fresh grant is given where its tokens are: by the library or <code>countersign authorize</code>, never
                in a page.
              </p>`
        }${open('decline', 'Decline', words('reason', 'Reason'), 'reject')}`;
    }
  }
}
